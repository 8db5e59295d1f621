"""The journal of the embedded service: a SQLite file, written before a call is answered."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from shardline.errors import ConfigurationError
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FORMAT: Final = 1
_IN_USE: Final = "another service has it open: stop that one, or use another file"


class Entry(NamedTuple):
    """One entry: its place in the file, its time, its kind and its content."""

    place: int
    at_ms: int
    kind: str
    content: Any


class Journal:
    """Entries in the order of their effects. Only one service can have the file open.

    Every answer, that of a read included, waits until all earlier entries are on disk: after a
    crash a record that a client has seen must exist and its number must not be given again.
    Calls that wait at the same time share one commit.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._appended = 0
        self._saved = 0
        self._pending: list[tuple[int, str, bytes]] = []
        self._lock = threading.Lock()
        self._failure: str | None = None
        self._thread = ThreadPoolExecutor(1, "shardline-journal")
        try:
            self._database = _open(path)
        except sqlite3.Error as error:
            why = _IN_USE if "locked" in str(error) else f"{error}: check path and permissions"
            raise ConfigurationError(f"cannot open {path}: {why}") from None

    def entries(self) -> Iterator[Entry]:
        """Yield every entry of the file in order."""
        rows = self._database.execute("SELECT place, at_ms, kind, content FROM entries ORDER BY 1")
        for place, at_ms, kind, content in rows:
            yield Entry(place, at_ms, kind, msgspec.msgpack.decode(content))

    def replace(self, place: int, content: Any) -> None:
        """Replace the content of an entry. It is written with the next commit."""
        encoded = msgspec.msgpack.encode(content)
        self._database.execute("UPDATE entries SET content = ? WHERE place = ?", (encoded, place))

    def append(self, at_ms: int, kind: str, content: Any) -> None:
        """Append an entry. It is on disk after `commit` or when `flushed` returns."""
        self._require_writable()
        self._pending.append((at_ms, kind, msgspec.msgpack.encode(content)))
        self._appended += 1

    def commit(self) -> None:
        """Write all appended entries to the disk."""
        with self._lock:
            self._require_writable()
            pending, self._pending = self._pending, []
            try:
                self._database.executemany(
                    "INSERT INTO entries (at_ms, kind, content) VALUES (?, ?, ?)", pending
                )
                self._database.commit()
            except sqlite3.Error as error:
                self._failure = f"{self.path} cannot be written ({error}): free space, then restart"
                raise self._refusal() from error
            self._saved += len(pending)

    async def flushed(self) -> None:
        """Wait until all entries appended so far are on disk, or raise `Refusal`."""
        appended = self._appended
        while self._saved < appended:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.commit)

    def close(self) -> None:
        """Write the remaining entries and close the file."""
        try:
            if self._failure is None:
                self.commit()
        finally:
            self._thread.shutdown()
            self._database.close()

    def _require_writable(self) -> None:
        if self._failure is not None:
            raise self._refusal()

    def _refusal(self) -> Refusal:
        # The state in memory is ahead of the file now, so no further call may be answered from it.
        return Refusal("InternalFailure", self._failure or "", status=500)


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(
        path, timeout=0, isolation_level="IMMEDIATE", check_same_thread=False
    )
    # Locked while it is open: another process must not write entries that this one never reads.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version not in (0, _FORMAT):
        raise ConfigurationError(
            f"cannot open {path}: it was written by another version of shardline (format "
            f"{version}, not {_FORMAT}): use another file"
        )
    database.execute(
        "CREATE TABLE IF NOT EXISTS entries"
        " (place INTEGER PRIMARY KEY, at_ms INTEGER, kind TEXT, content BLOB)"
    )
    database.execute(f"PRAGMA user_version = {_FORMAT}")
    database.commit()
    return database
