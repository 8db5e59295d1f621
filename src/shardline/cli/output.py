"""How commands print: for people on a terminal, plainly into a file, as JSON for programs."""

import json
import math
import sys
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 200


def wide_console(*, stderr: bool = False) -> "Console":
    """Return a console that cuts no line short, and writes no control codes, into a file."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, width=width, highlight=False, emoji=False, markup=False)


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def print_json_line(**values: object) -> None:
    """Print values as one line of JSON, at once: programs read along."""
    typer.echo(json.dumps(values, default=_plain, ensure_ascii=False))
    sys.stdout.flush()


def duration(seconds: float | None) -> str:
    """Write a duration as people say it: 12s, 5m, 3h, 2d; a dash where it is not known."""
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
    """Escape what a terminal would act on: a record must not move the cursor or ring the bell."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
