"""One record as text: for people, as JSON for programs, or as its raw bytes."""

import base64
import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from shardline.cli.output import printable, wide_console
from shardline.observation.names import short_shard_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.records import Record

_ONE_LINE = 100


def printer_for(form: str) -> "Callable[[Record], None]":
    """Return the function that prints a record in a form: pretty, json or raw."""
    match form:
        case "json":
            return _print_json
        case "raw":
            return _print_raw
    return _pretty_printer()


def payload_text(data: bytes) -> str:
    """Return a payload as printable text: JSON indented, other text escaped, the rest as hex."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        shown = data[:64].hex(" ")
        return f"{shown} … ({len(data)} bytes)" if len(data) > 64 else shown
    try:
        value = json.loads(text)
    except ValueError:
        return printable(text)
    if not isinstance(value, dict | list):
        return printable(text)
    line = json.dumps(value, ensure_ascii=False)
    if len(line) > _ONE_LINE:
        line = json.dumps(value, ensure_ascii=False, indent=2)
    return "\n".join(printable(part) for part in line.split("\n"))


def record_to_json(record: "Record") -> dict[str, Any]:
    """Return a record as values for `json.dumps`: text payloads as text, others in base64."""
    plain: dict[str, Any] = {
        "shard_id": record.shard_id,
        "sequence_number": record.sequence_number,
        "arrived_at": record.arrived_at.isoformat(),
    }
    data = getattr(record, "data", None)
    if data is None:
        for name in ("event_name", "keys", "new", "old"):
            plain[name] = getattr(record, name)
        return plain
    plain["partition_key"] = getattr(record, "partition_key", None)
    try:
        plain["data"] = data.decode()
    except UnicodeDecodeError:
        plain["data_base64"] = base64.b64encode(data).decode()
    return plain


def _pretty_printer() -> "Callable[[Record], None]":
    from rich.text import Text

    console = wide_console()

    def show(record: "Record") -> None:
        key = getattr(record, "partition_key", None)
        line = Text(f"{record.arrived_at.astimezone():%H:%M:%S.%f}"[:-3], style="dim")
        line.append(f"  {printable(short_shard_id(record.shard_id))}  ", style="cyan")
        line.append(printable(key if key is not None else _change(record)), style="bold")
        text = payload_text(_data(record))
        line.append("\n" if "\n" in text else "  ").append(text)
        console.print(line, soft_wrap=True)

    return show


def _change(record: "Record") -> str:
    return f"{getattr(record, 'event_name', '')} {getattr(record, 'keys_json', '')}"


def _data(record: "Record") -> bytes:
    data: bytes | None = getattr(record, "data", None)
    if data is not None:
        return data
    images = {name: image for name in ("new", "old") if (image := getattr(record, name))}
    return json.dumps(images, ensure_ascii=False).encode()


def _print_json(record: "Record") -> None:
    typer.echo(json.dumps(record_to_json(record), ensure_ascii=True))


def _print_raw(record: "Record") -> None:
    data = _data(record)
    if sys.stdout.isatty():  # control codes go into files and pipes only
        typer.echo(printable(data.decode(errors="backslashreplace")))
    else:
        typer.echo(data)
