"""Output of commands: for people on a terminal, plain text into a file, JSON for programs."""

import json
import math
import sys
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 200


def wide_console() -> "Console":
    """Return a console that, into a file, truncates no line and writes no control codes."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(width=width, highlight=False, emoji=False, markup=False)


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def print_json_line(**values: object) -> None:
    """Print values as one line of JSON, and flush: programs read along."""
    typer.echo(json.dumps(values, default=_plain, ensure_ascii=False))
    sys.stdout.flush()


def duration(seconds: float | None) -> str:
    """Return a duration as 12s, 5m, 3h or 2d, or a dash if it is not known."""
    if seconds is None or math.isnan(seconds):
        return "–"
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    for size, unit, limit in ((1, "s", 120), (60, "m", 7200), (3600, "h", 172_800)):
        if seconds < limit:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


def printable(text: str) -> str:
    """Return text with control characters escaped, so that no record can control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
