"""Reads dead letters from where consumers put them: a folder, a stream or a table."""

from __future__ import annotations

import base64
import json
import os
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from shardline.errors import ConfigurationError
from shardline.observation.snapshot import DeadLetter
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.streams.stream import Stream

SHOWN: Final = 50
_TAIL_BYTES: Final = 256 * 1024
_PAYLOAD_CHARACTERS: Final = 400
_READ_SECONDS: Final = 0.5
"""For a stream of letters at each look: a long one is caught up with over several looks."""
_SCAN_SECONDS: Final = 30.0
"""A scan is paid for by what it reads: at most 1 MB, this often."""
_PATIENCE: Final = Patience(total_seconds=5)


class Letters(Protocol):
    """A place with dead letters."""

    def newest(self) -> tuple[DeadLetter, ...]:
        """Return up to `SHOWN` letters, oldest first."""

    def close(self) -> None:
        """Let go of it."""


def open_letters(
    address: str,
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
) -> Letters:
    """Return the letters at `file:///FOLDER`, `kinesis://STREAM` or `dynamodb://TABLE`.

    The endpoint is that of Kinesis; another DynamoDB than AWS's is named by the environment, as
    for the consumers that write there.
    """
    scheme, _, name = address.partition("://")
    match scheme:
        case "kinesis" if name:
            from shardline.streams.stream import stream

            return _LettersInStream(
                stream(
                    address,
                    "trim_horizon",
                    region=region,
                    endpoint_url=endpoint_url,
                    profile=profile,
                    on_gap="go_on",
                    poll_seconds=1.0,
                    connections=2,
                )
            )
        case "dynamodb" if name:
            client = make_client("dynamodb", Access(region=region, profile=profile))
            return _LettersInTable(Calls(client, f"dead letters in {address}", _PATIENCE), name)
        case "file" if name.startswith("/"):
            return _LettersInFolder(Path(url2pathname(urlsplit(address).path)))
    raise ConfigurationError(
        f"{address!r} is no place for dead letters: write file:///FOLDER, kinesis://STREAM or "
        "dynamodb://TABLE"
    )


class _LettersInFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def newest(self) -> tuple[DeadLetter, ...]:
        """Read the ends of the files; there are none while there is no such folder."""
        files = sorted(self._folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        found: list[DeadLetter] = []
        for path in files:
            at = path.stat().st_mtime
            letters = (_parse(line, at) for line in _last_lines(path))
            found += [letter for letter in letters if letter is not None]
        return tuple(found[-SHOWN:])

    def close(self) -> None:
        """Do nothing."""


class _LettersInStream:
    def __init__(self, stream: Stream[Any]) -> None:
        self._stream = stream
        self._found: deque[DeadLetter] = deque(maxlen=SHOWN)

    def newest(self) -> tuple[DeadLetter, ...]:
        """Read on, for a while."""
        deadline = time.monotonic() + _READ_SECONDS
        while time.monotonic() < deadline and (record := next(self._stream)) is not None:
            letter = _parse(record.data, record.arrived_at.timestamp())
            if letter is not None:
                self._found.append(letter)
        return tuple(self._found)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


class _LettersInTable:
    """Of a table there is no newest: it has no order. These are the first that a scan finds."""

    def __init__(
        self, calls: Calls, table_name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._calls = calls
        self._table_name = table_name
        self._clock = clock
        self._found: tuple[DeadLetter, ...] = ()
        self._scan_at = 0.0

    def newest(self) -> tuple[DeadLetter, ...]:
        """Scan, unless that was done a moment ago."""
        if self._clock() >= self._scan_at:
            items = self._calls.call("scan", TableName=self._table_name, Limit=SHOWN)["Items"]
            letters = (_parse(item.get("letter", {}).get("S", ""), 0.0) for item in items)
            found = [letter for letter in letters if letter is not None]
            self._found = tuple(sorted(found, key=lambda x: (x.shard_id, x.sequence_number)))
            self._scan_at = self._clock() + _SCAN_SECONDS
        return self._found

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()


def _last_lines(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read().split(b"\n")[-SHOWN - 1 :]


def _parse(text: bytes | str, at: float) -> DeadLetter | None:
    """Return None for what is no letter: half a line, being written now or cut by our reading."""
    try:
        letter = json.loads(text)
        record = letter["record"]
        return DeadLetter(
            at=at,
            shard_id=str(letter["shardId"]),
            partition_key=str(record.get("partitionKey", record.get("keys", ""))),
            sequence_number=str(record.get("sequenceNumber", "")),
            reason=str(letter["reason"]),
            payload=_payload(record)[:_PAYLOAD_CHARACTERS],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _payload(record: dict[str, Any]) -> str:
    match record.get("data"):
        case {"base64": str(text)}:
            return base64.b64decode(text).decode(errors="backslashreplace")
    return str(record.get("newImage") or record.get("oldImage") or "")
