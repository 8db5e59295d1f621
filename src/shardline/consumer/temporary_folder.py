"""Temporary folders that the next start deletes if the process that made them was killed.

A lock on a file in a folder shows that its process is alive.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

_LOCK: Final = "lock"
_UNLOCKED_SECONDS: Final = 3600.0
_until_exit: Final[list[TemporaryFolder]] = []


class TemporaryFolder:
    """A folder of this process, for its owner only."""

    def __init__(self, prefix: str) -> None:
        """Make the folder, after those of processes that are over have been deleted."""
        parent = Path(tempfile.gettempdir())
        delete_abandoned(parent, prefix)
        self.path: Final = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._process = os.getpid()
        # Locked before it has its name: a folder without that name is not taken for abandoned.
        unlocked = self.path / f"{_LOCK}.new"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        _try_lock(self._lock)
        unlocked.rename(self.path / _LOCK)

    def delete(self) -> None:
        """Delete the folder with all that is in it. No-op in a fork, and the second time."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)


def folder_until_exit(prefix: str) -> Path:
    """Return a new folder that is deleted when this process ends."""
    if not _until_exit:
        atexit.register(delete_folders)
    folder = TemporaryFolder(prefix)
    _until_exit.append(folder)
    return folder.path


def delete_folders() -> None:
    """Delete all folders of `folder_until_exit`: for an end that skips `atexit`."""
    for folder in _until_exit:
        folder.delete()


def delete_abandoned(parent: Path, prefix: str) -> None:
    """Delete the folders of this user's processes that ended without deleting them."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # another user's, or deleted by another start
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            _delete_unless_locked(folder)


def _delete_unless_locked(folder: Path) -> None:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        # Being made, or its process was killed meanwhile.
        if time.time() - folder.stat().st_mtime > _UNLOCKED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
        return
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
