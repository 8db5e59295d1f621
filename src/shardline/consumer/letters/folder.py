"""Dead letters in a folder: one file of JSON lines for each shard, for its owner alone."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shardline.consumer.letters.letter import Letter, Origin, Redriven, letters_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shardline.consumer.consumer import ShardBatch

SUFFIX: Final = ".jsonl"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class FolderOfLetters:
    """Appends lines, and waits for the disk."""

    def __init__(self, folder: str, origin: Origin) -> None:
        self._folder = Path(folder)
        self._origin = origin

    def write(
        self, batch: ShardBatch, reason: str, *, parked: bool = False, hash_key: str | None = None
    ) -> tuple[str, ...]:
        """Append the letters to the shard's file."""
        at = datetime.now(UTC)
        letters = letters_for(batch, reason, self._origin, at, parked=parked, hash_key=hash_key)
        name = _file_name(self._origin.stream, batch.shard_id)
        self._append(name, (letter.to_bytes() for letter in letters))
        return tuple(letter.id for letter in letters)

    def remove(self, letters: Sequence[Letter]) -> None:
        """Append a mark for each letter to the file in which it is."""
        names = {_file_name(letter.stream, letter.shard_id) for letter in letters}
        for name in sorted(names):
            inside = (x for x in letters if _file_name(x.stream, x.shard_id) == name)
            self._append(name, (Redriven(x.id, x.fence).to_bytes() for x in inside))

    def close(self) -> None:
        """No-op: every write closes its file."""

    def _append(self, name: str, lines: Iterable[bytes]) -> None:
        if not self._folder.exists():
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self._folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        path = self._folder / name
        is_new = not path.exists()
        # Not through a symbolic link: who may write to the folder could point it anywhere.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(path, flags, _FILE_MODE)
        try:
            # A line that a crash cut short ends here, and is not glued to the next one.
            _write_all(file, b"\n" + b"".join(line + b"\n" for line in lines))
            os.fsync(file)
        finally:
            os.close(file)
        if is_new:
            _sync_folder(self._folder)


def lines_in(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file that are not empty."""
    with path.open("rb") as file:
        for line in file:
            if stripped := line.strip(b"\n\0"):
                yield stripped


def _file_name(stream: str, shard_id: str) -> str:
    parts = (re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in (stream, shard_id) if part)
    return ".".join(parts) + SUFFIX


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, not only what is in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
