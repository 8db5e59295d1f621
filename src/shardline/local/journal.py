"""The journal of the embedded service: a SQLite file, written before a call is answered."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from shardline.errors import ConfigurationError
from shardline.local.refusals import Refusal

_logger = logging.getLogger(__name__)

_FORMAT: Final = 1


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
        self._append_lock = threading.Lock()
        self._commit_lock = threading.Lock()
        self._failure: Refusal | None = None
        self._thread = ThreadPoolExecutor(1, "shardline-journal")
        try:
            # Open as long as the database: a close would end the locks that SQLite has on the file.
            self._descriptor = _open_file(path)
            try:
                self._database = _open(path.absolute(), self._descriptor)
            except BaseException:
                os.close(self._descriptor)
                raise
        except OSError as error:
            raise ConfigurationError(
                f"cannot open {path}: {error.strerror or error}: check path and permissions"
            ) from None
        except sqlite3.Error as error:
            raise ConfigurationError(f"cannot open {path}: {_advice(error)}") from None

    def entries(self) -> Generator[Entry]:
        """Yield every entry of the file in order."""
        rows = self._database.execute("SELECT place, at_ms, kind, content FROM entries ORDER BY 1")
        with closing(rows):
            for place, at_ms, kind, content in rows:
                yield Entry(place, at_ms, kind, msgspec.msgpack.decode(content))

    def replace(self, place: int, content: Any) -> None:
        """Replace the content of an entry. It is written with the next commit."""
        encoded = msgspec.msgpack.encode(content)
        self._database.execute("UPDATE entries SET content = ? WHERE place = ?", (encoded, place))

    def append(self, at_ms: int, kind: str, content: Any) -> None:
        """Append an entry. It is on disk after `commit` or when `flushed` returns."""
        with self._append_lock:
            self._pending.append((at_ms, kind, msgspec.msgpack.encode(content)))
            self._appended += 1

    def commit(self) -> None:
        """Write all appended entries to the disk. After a failure the next call tries again."""
        with self._commit_lock:
            batch = self._pending[:]
            try:
                self._database.executemany(
                    "INSERT INTO entries (at_ms, kind, content) VALUES (?, ?, ?)", batch
                )
                self._database.commit()
            except sqlite3.Error as error:
                with suppress(sqlite3.Error):
                    self._database.rollback()
                if self._failure is None:
                    _logger.warning("%s cannot be written (%s): free space", self.path, error)
                self._failure = Refusal(
                    "InternalFailure",
                    f"{self.path} cannot be written ({error}): free space, then try again",
                    status=500,
                )
                raise self._failure from error
            if self._failure is not None:
                _logger.warning("%s is written again", self.path)
            self._failure = None
            with self._append_lock:
                del self._pending[: len(batch)]
            self._saved += len(batch)

    async def flushed(self) -> None:
        """Wait until all entries appended so far are on disk, or raise `Refusal`."""
        appended = self._appended
        while self._saved < appended:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.commit)

    async def require_writable(self) -> None:
        """Raise `Refusal` while the disk is full, so that entries do not pile up in memory."""
        if self._failure is not None:
            await self.flushed()

    def close(self) -> None:
        """Write the remaining entries and close the file."""
        try:
            self.commit()
        except Refusal:
            _logger.warning("%s: %d entries were never written", self.path, len(self._pending))
        finally:
            self._thread.shutdown()
            self._database.close()
            os.close(self._descriptor)


def _files_of(path: Path) -> tuple[Path, ...]:
    """Return the file and those that SQLite keeps beside it."""
    return (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")))


def _open_file(path: Path) -> int:
    """Create the file for its owner only, and change nothing of one that exists.

    A symbolic link is refused, for the files that SQLite keeps beside it too: another user may
    have made it point to a file that is none of ours.
    """
    for each in _files_of(path):
        if each.is_symlink():
            raise ConfigurationError(f"cannot open {path}: {each} is a symbolic link: remove it")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigurationError(f"cannot open {path}: it is not a regular file: use another file")
    return descriptor


def _make_private(path: Path, descriptor: int) -> None:
    """Take the rights of others to a journal that exists, and to the files beside it."""
    os.fchmod(descriptor, 0o600)
    for each in _files_of(path)[1:]:
        with suppress(FileNotFoundError):
            beside = os.open(each, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchmod(beside, 0o600)
            finally:
                os.close(beside)


def _advice(error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return "another service has it open: stop that one, or use another file"
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return f"{error}: it is damaged, or not a journal: move it away, or use another file"
    return f"{error}: check path and permissions"


def _open(path: Path, descriptor: int) -> sqlite3.Connection:
    database = sqlite3.connect(
        path, timeout=0, isolation_level="IMMEDIATE", check_same_thread=False
    )
    # Locked while it is open: another process must not write entries that this one never reads.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    try:
        _require_journal(database, path)
        _make_private(path, descriptor)
        _prepare(database)
    except BaseException:
        database.close()
        raise
    return database


def _require_journal(database: sqlite3.Connection, path: Path) -> None:
    """Raise `ConfigurationError` unless it is a journal or empty. Nothing is changed."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    if version == 0 and tables - {"entries"}:
        raise ConfigurationError(
            f"cannot open {path}: it is the database of another program "
            f"(it has {min(tables - {'entries'})!r}): use another file"
        )
    if version not in (0, _FORMAT):
        raise ConfigurationError(
            f"cannot open {path}: it was written by another version of shardline (format "
            f"{version}, not {_FORMAT}): use another file"
        )
    if version == _FORMAT and "entries" not in tables:
        raise ConfigurationError(
            f"cannot open {path}: it has no entries: it is damaged, or not a journal: "
            "move it away, or use another file"
        )


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS entries"
        " (place INTEGER PRIMARY KEY, at_ms INTEGER, kind TEXT, content BLOB)"
    )
    database.execute(f"PRAGMA user_version = {_FORMAT}")
    database.commit()
