"""Dead letters in files: for their owner alone, durable, and whole again after a torn write."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from shardline.consumer.consumer import ShardBatch
from shardline.consumer.letters.folder import FolderOfLetters, lines_in
from shardline.consumer.letters.letter import Assembly, Letter, Origin
from shardline.core.fences import Fence
from tests.unit.consumer.shard_pages import SHARD, page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def batch(numbers: Sequence[int], shard_id: str = SHARD, delivery: int = 7) -> ShardBatch:
    return ShardBatch(shard_id, Fence(4, delivery), page(*[(f"key-{n}", n) for n in numbers]))


def letters_in(folder: Path) -> list[Letter]:
    assembly = Assembly()
    for path in folder.iterdir():
        for line in lines_in(path):
            assembly.add(line)
    return assembly.letters()


def numbers_in(folder: Path) -> list[int]:
    return [int(letter.sequence_number) for letter in letters_in(folder)]


@pytest.mark.case("R-01")
def test_files_hold_all_that_is_needed_to_process_it_later(tmp_path: Path) -> None:
    folder = tmp_path / "dead" / "letters"
    place = FolderOfLetters(str(folder), Origin("billing", "orders"))
    ids = place.write(batch([1, 2]), "ValueError: nö")
    place.write(batch([3]), "KeyError: 'x'")
    place.write(batch([4], "../elsewhere"), "odd")
    assert sorted(path.name for path in folder.iterdir()) == [
        "orders.___elsewhere.jsonl", f"orders.{SHARD}.jsonl",
    ]  # fmt: skip
    letters = letters_in(folder)
    assert ids == tuple(letter.id for letter in letters[:2])
    assert [(x.key, x.reason, x.payload) for x in letters[:3]] == [
        ("key-1", "ValueError: nö", b"1"),
        ("key-2", "ValueError: nö", b"2"),
        ("key-3", "KeyError: 'x'", b"3"),
    ]
    assert (letters[0].app, letters[0].stream, letters[0].fence) == (
        "billing", "orders", Fence(4, 7),
    )  # fmt: skip


@pytest.mark.case("X-19")
def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        FolderOfLetters(str(tmp_path / "new"), Origin()).write(batch([1]), "odd")
    finally:
        os.umask(old)
    (file,) = (tmp_path / "new").iterdir()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.case("X-19")
def test_a_torn_write_costs_no_other_letter(tmp_path: Path) -> None:
    place = FolderOfLetters(str(tmp_path), Origin())
    place.write(batch([1]), "odd")
    (file,) = tmp_path.iterdir()
    whole = file.stat().st_size
    place.write(batch([2]), "odd")
    for size in range(whole, file.stat().st_size):  # a crash at every byte of the second write
        torn = tmp_path / f"{size}" / file.name
        torn.parent.mkdir()
        torn.write_bytes(file.read_bytes()[:size])
        FolderOfLetters(str(torn.parent), Origin()).write(batch([3]), "odd")
        assert [n for n in numbers_in(torn.parent) if n != 2] == [1, 3]


@pytest.mark.case("R-01")
def test_a_write_returns_when_file_and_folder_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, int]] = []
    fsync = os.fsync

    def noting(file: int) -> None:
        status = os.fstat(file)
        synced.append((stat.S_ISDIR(status.st_mode), status.st_size))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noting)
    place = FolderOfLetters(str(tmp_path), Origin())
    place.write(batch([1]), "odd")
    (file,) = tmp_path.iterdir()
    assert [is_folder for is_folder, _ in synced] == [False, True]
    assert synced[0][1] == file.stat().st_size
    place.write(batch([2]), "odd")
    assert synced[-1] == (False, file.stat().st_size)


def test_a_letter_that_was_redriven_waits_no_longer(tmp_path: Path) -> None:
    place = FolderOfLetters(str(tmp_path), Origin("a", "orders"))
    place.write(batch([1, 2]), "odd")
    place.write(batch([3], "other"), "odd")
    first, _, third = letters_in(tmp_path)
    place.write(batch([1], delivery=9), "again")
    place.remove([first, third])
    assert [(x.sequence_number, x.reason) for x in letters_in(tmp_path)] == [
        ("1", "again"), ("2", "odd"),
    ]  # fmt: skip
    place.remove(letters_in(tmp_path))
    assert numbers_in(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        FolderOfLetters(str(tmp_path / "file"), Origin()).write(batch([1]), "odd")


@pytest.mark.case("X-19")
def test_letters_are_not_written_through_a_symbolic_link(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "letters", tmp_path / "elsewhere"
    place = FolderOfLetters(str(folder), Origin("billing", "orders"))
    place.write(batch([1]), "first")
    (file,) = folder.iterdir()
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    with pytest.raises(OSError, match="symbolic link"):
        place.write(batch([2]), "second")
    assert elsewhere.read_bytes() == before
