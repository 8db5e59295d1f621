"""Reads dead letters from where consumers put them: a folder, a stream or a table.

`newest` is for a page that refreshes every second: it is bounded, and continues where it was.
`read_all` is for a command that lists or redrives: it reads everything that the place has.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from shardline.consumer.dead_letters import folder_of, parse_place
from shardline.consumer.letters.folder import SUFFIX, lines_in
from shardline.consumer.letters.letter import Assembly, Letter
from shardline.core.positions import TRIM_HORIZON
from shardline.observation.snapshot import DeadLetter
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience
from shardline.services.connection import connect
from shardline.services.cursor import ShardCursor
from shardline.services.pace import ShardPace

SHOWN: Final = 50
_TAIL_BYTES: Final = 4 * 1024 * 1024
"""Read of a file at each refresh: the letters of some records of 1 MB."""
_PAYLOAD_CHARACTERS: Final = 400
_READ_SECONDS: Final = 0.5
"""Spent on a stream of letters at each refresh: a long stream takes several."""
_READ_RECORDS: Final = 1_000
_LIST_SECONDS: Final = 30.0
_SCAN_SECONDS: Final = 30.0
"""Between two scans of a table: a scan is paid for by what it reads, at most 1 MB here."""
_PATIENCE: Final = Patience(total_seconds=5)


class LetterReader(Protocol):
    """A place with dead letters."""

    def newest(self) -> tuple[DeadLetter, ...]:
        """Return up to `SHOWN` letters that wait, oldest first, as a page shows them."""

    def read_all(self) -> Assembly:
        """Read everything that the place has."""

    def close(self) -> None:
        """Close the connections."""


def open_letters(address: str, access: Access) -> LetterReader:
    """Return the letters at `file:///FOLDER`, `kinesis://STREAM` or `dynamodb://TABLE`.

    The endpoint is that of Kinesis; another DynamoDB than AWS's is named by the environment, as
    for the consumers that write there.
    """
    scheme, name = parse_place(address)
    match scheme:
        case "kinesis":
            return _LettersInStream(address, access)
        case "dynamodb":
            client = make_client("dynamodb", Access(region=access.region, profile=access.profile))
            return _LettersInTable(Calls(client, f"dead letters in {address}", _PATIENCE), name)
        case _:
            return _LettersInFolder(Path(folder_of(address)))


class _LettersInFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: dict[Path, tuple[tuple[int, int], list[Letter]]] = {}
        """The end of each file, and its time and size when that was read."""

    def newest(self) -> tuple[DeadLetter, ...]:
        """Read the ends of the files that have changed; a folder that is missing has none."""
        found = [letter for path in self._files() for letter in self._end_of(path)]
        found.sort(key=lambda letter: letter.written_at)
        return tuple(map(_shown, found[-SHOWN:]))

    def read_all(self) -> Assembly:
        """Read all files."""
        return _assembled(line for path in self._files() for line in lines_in(path))

    def close(self) -> None:
        """No-op: no file stays open."""

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{SUFFIX}"))

    def _end_of(self, path: Path) -> list[Letter]:
        status = path.stat()
        version = (status.st_mtime_ns, status.st_size)
        known = self._ends.get(path)
        if known is None or known[0] != version:
            newest = _assembled(_last_lines(path), SHOWN).newest()
            known = self._ends[path] = (version, newest)
        return known[1]


class _LettersInStream:
    def __init__(self, address: str, access: Access) -> None:
        self._service = connect(address, access, patience=_PATIENCE)
        self._cursors: dict[str, ShardCursor] = {}
        self._list_at = 0.0
        self._newest = Assembly(SHOWN)

    def newest(self) -> tuple[DeadLetter, ...]:
        """Read on, for a while."""
        deadline = time.monotonic() + _READ_SECONDS
        if time.monotonic() >= self._list_at:
            for shard in self._service.list_shards():
                self._cursors.setdefault(shard.id, self._cursor(shard.id))
            self._list_at = time.monotonic() + _LIST_SECONDS
        for cursor in self._cursors.values():
            at_tip = False
            while not at_tip and not cursor.ended and time.monotonic() < deadline:
                at_tip = _read_page(cursor, self._newest)
        return tuple(map(_shown, self._newest.newest()))

    def read_all(self) -> Assembly:
        """Read every shard up to its tip, by what the service reports."""
        assembly = Assembly()
        for shard in self._service.list_shards():
            cursor = self._cursor(shard.id)
            while not cursor.ended and not _read_page(cursor, assembly):
                pass
        return assembly

    def close(self) -> None:
        """Close the connections."""
        self._service.close()

    def _cursor(self, shard_id: str) -> ShardCursor:
        return ShardCursor(self._service, shard_id, TRIM_HORIZON, pace=ShardPace())


def _read_page(cursor: ShardCursor, assembly: Assembly) -> bool:
    """Take the next page in; return true at the tip of the shard."""
    page = cursor.read(_READ_RECORDS)
    for line in page.records.column("data").to_pylist():
        assembly.add(line)
    return page.behind_ms == 0


class _LettersInTable:
    """A table has no order, and so no newest: `newest` are the first that a scan finds."""

    def __init__(
        self, calls: Calls, table_name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._calls = calls
        self._table_name = table_name
        self._clock = clock
        self._found: tuple[DeadLetter, ...] = ()
        self._scan_at = 0.0

    def newest(self) -> tuple[DeadLetter, ...]:
        """Scan one page, unless that was done a moment ago."""
        if self._clock() >= self._scan_at:
            found = _assembled(self._lines(next(self._pages(Limit=SHOWN))))
            self._found = tuple(map(_shown, found.letters()[:SHOWN]))
            self._scan_at = self._clock() + _SCAN_SECONDS
        return self._found

    def read_all(self) -> Assembly:
        """Scan the whole table."""
        pages = self._pages(ConsistentRead=True)
        return _assembled(line for page in pages for line in self._lines(page))

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()

    def _pages(self, **options: Any) -> Iterator[dict[str, Any]]:
        while True:
            page = self._calls.call("scan", TableName=self._table_name, **options)
            yield page
            if not page.get("LastEvaluatedKey"):
                return
            options["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    @staticmethod
    def _lines(page: dict[str, Any]) -> Iterator[bytes]:
        for item in page["Items"]:
            yield item.get("letter", {}).get("S", "").encode()


def _assembled(lines: Iterable[bytes], most: int | None = None) -> Assembly:
    assembly = Assembly(most)
    for line in lines:
        assembly.add(line)
    return assembly


def _last_lines(path: Path) -> list[bytes]:
    """Return the lines at the end of a file; the first may be cut by our reading."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        return [line for line in file.read().split(b"\n") if line]


def _shown(letter: Letter) -> DeadLetter:
    key = letter.record.get("partitionKey") or letter.record.get("keys") or letter.key
    return DeadLetter(
        at=datetime.fromisoformat(letter.written_at).timestamp(),
        shard_id=letter.shard_id,
        partition_key=str(key),
        sequence_number=letter.sequence_number,
        reason=letter.reason,
        payload=letter.payload.decode(errors="backslashreplace")[:_PAYLOAD_CHARACTERS],
    )
