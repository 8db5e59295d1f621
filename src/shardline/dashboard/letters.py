"""Reads the newest dead letters from the folder into which consumers put them."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from shardline.dashboard.snapshot import DeadLetter
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN: Final = 50
_TAIL_BYTES: Final = 256 * 1024
_PAYLOAD_CHARACTERS: Final = 400


def folder_of(address: str) -> Path:
    """Return the folder at `file:///FOLDER`. Letters elsewhere are not shown on the page."""
    parts = urlsplit(address)
    if parts.scheme != "file" or not parts.path.startswith("/"):
        raise ConfigurationError(
            f"{address!r}: the page shows dead letters of a folder only: write file:///FOLDER"
        )
    return Path(url2pathname(parts.path))


def newest_letters(folder: Path) -> tuple[DeadLetter, ...]:
    """Return the newest letters, oldest first; none while there is no such folder."""
    files = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    found = [letter for path in files for letter in _letters_in(path)]
    return tuple(found[-_SHOWN:])


def _letters_in(path: Path) -> Iterator[DeadLetter]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().split(b"\n")
    for line in lines[-_SHOWN - 1 :]:
        try:
            letter = json.loads(line)
            record = letter["record"]
            yield DeadLetter(
                at=path.stat().st_mtime,
                shard_id=str(letter["shardId"]),
                partition_key=str(record.get("partitionKey", record.get("keys", ""))),
                sequence_number=str(record.get("sequenceNumber", "")),
                reason=str(letter["reason"]),
                payload=_payload(record)[:_PAYLOAD_CHARACTERS],
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # half a line: being written now, or cut by reading only the end of the file


def _payload(record: dict[str, Any]) -> str:
    match record.get("data"):
        case {"base64": str(text)}:
            return base64.b64decode(text).decode(errors="backslashreplace")
    return str(record.get("newImage") or record.get("oldImage") or "")
