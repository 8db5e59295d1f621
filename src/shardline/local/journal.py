"""What the embedded service has taken on, in a SQLite file: on disk before anybody hears of it."""

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
_BUSY: Final = "another service has it open: stop that one, or use another file"


class Entry(NamedTuple):
    """One thing that happened: when, what kind of thing, and its content."""

    place: int
    at_ms: int
    kind: str
    content: Any


class Journal:
    """Entries in the order in which things happened. Only one service may have the file open.

    Whoever answers a call first waits until everything noted so far is on disk, reads included: a
    record that somebody has seen may not be gone, and its number given to another, after a crash.
    Calls that wait at the same time share one commit.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._noted = 0
        self._saved = 0
        self._pending: list[tuple[int, str, bytes]] = []
        self._lock = threading.Lock()
        self._failure: str | None = None
        self._thread = ThreadPoolExecutor(1, "shardline-journal")
        try:
            self._database = _open(path)
        except sqlite3.Error as error:
            why = _BUSY if "locked" in str(error) else f"{error}: check path and permissions"
            raise ConfigurationError(f"cannot open {path}: {why}") from None

    def entries(self) -> Iterator[Entry]:
        """Read everything that is in the file."""
        rows = self._database.execute("SELECT place, at_ms, kind, content FROM entries ORDER BY 1")
        for place, at_ms, kind, content in rows:
            yield Entry(place, at_ms, kind, msgspec.msgpack.decode(content))

    def replace(self, place: int, content: Any) -> None:
        """Change the content of an entry; on disk with the next commit or never."""
        encoded = msgspec.msgpack.encode(content)
        self._database.execute("UPDATE entries SET content = ? WHERE place = ?", (encoded, place))

    def note(self, at_ms: int, kind: str, content: Any) -> None:
        """Add an entry. It is on disk after `commit`, or when `settled` returns."""
        self._require_sound()
        self._pending.append((at_ms, kind, msgspec.msgpack.encode(content)))
        self._noted += 1

    def commit(self) -> None:
        """Write everything noted so far to the disk."""
        with self._lock:
            self._require_sound()
            pending, self._pending = self._pending, []
            try:
                self._database.executemany(
                    "INSERT INTO entries (at_ms, kind, content) VALUES (?, ?, ?)", pending
                )
                self._database.commit()
            except sqlite3.Error as error:
                self._failure = f"{self.path} cannot be written ({error}): free space, then restart"
                raise self._broken() from error
            self._saved += len(pending)

    async def settled(self) -> None:
        """Wait until everything noted so far is on the disk, or refuse to go on."""
        noted = self._noted
        while self._saved < noted:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.commit)

    def close(self) -> None:
        """Write what is left, and let go of the file."""
        try:
            if self._failure is None:
                self.commit()
        finally:
            self._thread.shutdown()
            self._database.close()

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise self._broken()

    def _broken(self) -> Refusal:
        # What is in memory is ahead of the file now, so nothing more may be said about it.
        return Refusal("InternalFailure", self._failure or "", status=500)


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(
        path, timeout=0, isolation_level="IMMEDIATE", check_same_thread=False
    )
    # Held for as long as it is open, so that nobody else writes what we would not read.
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
