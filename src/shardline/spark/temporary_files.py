"""A folder for the temporary files of Spark's driver, which Spark leaves behind when it is killed.

Sockets, shuffle files and extracted libraries go into it. It is deleted at the end of a run, and by
the next start if the run was killed: a lock on a file in it shows that its run is alive.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl


_PREFIX: Final = "shardline-spark-"
_LOCK: Final = "lock"
_LONGEST_PATH: Final = 60
"""Spark binds sockets in the folder, and a socket's whole path has at most 104 characters."""


class TemporaryFiles:
    """The folder of one run."""

    def __init__(self) -> None:
        """Make the folder, after those of runs that are over have been deleted."""
        parent = Path(tempfile.gettempdir())
        delete_abandoned(parent)
        self.path: Final = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        # Locked before it has its name: a folder without that name is never taken for abandoned.
        unlocked = self.path / f"{_LOCK}.new"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        _try_lock(self._lock)
        unlocked.rename(self.path / _LOCK)

    def java_options(self) -> str:
        """Return the option that makes the JVM use the folder."""
        return f"-Djava.io.tmpdir={self.path}" if len(str(self.path)) <= _LONGEST_PATH else ""

    @contextmanager
    def for_python(self) -> Iterator[None]:
        """Make `tempfile` use the folder meanwhile: PySpark does while it starts the JVM."""
        before = tempfile.tempdir
        tempfile.tempdir = str(self.path)
        try:
            yield
        finally:
            tempfile.tempdir = before

    def delete(self) -> None:
        """Delete the folder with all that is in it. A second call has no effect."""
        shutil.rmtree(self.path, ignore_errors=True)


def delete_abandoned(parent: Path) -> None:
    """Delete the folders of this user's runs that ended without deleting them."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or deleted by another start
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if _try_lock(lock):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _try_lock(descriptor: int) -> bool:
    """Return true if the file is now locked by this process; where locks are missing, false."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
