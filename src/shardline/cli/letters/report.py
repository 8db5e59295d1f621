"""How dead letters are printed."""

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shardline.cli.output import printable

if TYPE_CHECKING:
    from rich.console import Console

    from shardline.consumer.letters.letter import Assembly, Letter

_REASONS_SHOWN = 10


def summary_of(found: "Assembly", limit: int) -> dict[str, Any]:
    """Return counts, reasons and the first letters as values for JSON."""
    letters = found.letters()
    return {
        "letters": len(letters),
        "unreadable": found.unreadable,
        "incomplete": found.incomplete,
        "reasons": dict(_reasons(letters)),
        "parked_keys": len({letter.key for letter in letters if letter.parked}),
        "waiting": [as_values(letter) for letter in letters[:limit]],
    }


def as_values(letter: "Letter", *, payload: bool = False) -> dict[str, Any]:
    """Return a letter as values for JSON, with the payload decoded if asked for."""
    values = {name: value for name, value in asdict(letter).items() if name != "record"}
    values["fence"] = list(letter.fence)
    values |= {"sequence_number": letter.sequence_number, "bytes": len(letter.payload)}
    if payload:
        values |= {"payload": _decoded(letter.payload), "record": letter.record}
    return values


def render_list(found: "Assembly", limit: int, console: "Console") -> None:
    """Print the letters as a table, then how many there are for which reason."""
    from rich.table import Table

    letters = found.letters()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("LETTER", "KEY", "PARKED", "WRITTEN", "BYTES", "REASON"):
        right = header == "BYTES"
        table.add_column(header, justify="right" if right else "left", no_wrap=header != "REASON")
    for letter in letters[:limit]:
        table.add_row(
            printable(letter.id),
            printable(letter.key),
            "yes" if letter.parked else "",
            letter.written_at[:19],
            str(len(letter.payload)),
            printable(letter.reason),
        )
    if letters:
        console.print(table)
    if len(letters) > limit:
        console.print(f"… and {len(letters) - limit} more: --limit {len(letters)} lists all")
    console.print(_count_line(found))


def render_letter(letter: "Letter", console: "Console") -> None:
    """Print everything about a letter, and its payload last."""
    values = as_values(letter)
    for name, value in values.items():
        console.print(f"{name}: {printable(str(value))}", soft_wrap=True)
    console.print()
    payload = _decoded(letter.payload)
    if not isinstance(payload, str):
        payload = json.dumps(payload, indent=2, ensure_ascii=False)
    for line in payload.split("\n"):
        console.print(printable(line), soft_wrap=True)


def _count_line(found: "Assembly") -> str:
    letters = found.letters()
    if not letters and not found.unreadable and not found.incomplete:
        return "no letters"
    reasons = ", ".join(f"{n} × {printable(why)}" for why, n in _reasons(letters)[:_REASONS_SHOWN])
    parked = len({letter.key for letter in letters if letter.parked})
    parts = [f"{len(letters)} letters" + (f": {reasons}" if reasons else "")]
    if parked:
        parts.append(f"{parked} keys parked")
    if found.incomplete:
        parts.append(f"{found.incomplete} incomplete")
    if found.unreadable:
        parts.append(f"{found.unreadable} lines that are no letters")
    return " · ".join(parts)


def _reasons(letters: "list[Letter]") -> list[tuple[str, int]]:
    """Count by the kind of error: the rest of a reason often names the record."""
    return Counter(letter.reason.partition(":")[0] for letter in letters).most_common()


def _decoded(payload: bytes) -> Any:
    """Return a payload as JSON, as text, or with its other bytes escaped."""
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode(errors="backslashreplace")
