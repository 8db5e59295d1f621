"""Temporary folders that leave nothing behind. Those of Spark have tests of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

from shardline.consumer.temporary_folder import TemporaryFolder, delete_abandoned

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "shardline-leases-"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_until_exit_is_deleted_by_the_end_of_its_process(temporary: Path) -> None:
    program = (
        "from shardline.consumer.temporary_folder import folder_until_exit\n"
        f"(folder_until_exit({PREFIX!r}) / 'leases.db').touch()"
    )
    environment = os.environ | {"TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert list(temporary.iterdir()) == []


def test_a_fork_does_not_delete_the_folder_of_its_parent() -> None:
    folder = TemporaryFolder(PREFIX)
    child = os.fork()
    if child == 0:
        folder.delete()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.exists()


def test_a_folder_whose_process_was_killed_before_it_was_locked_goes_after_an_hour(
    temporary: Path,
) -> None:
    made = temporary / f"{PREFIX}x"
    made.mkdir()
    delete_abandoned(temporary, PREFIX)
    assert made.exists()
    os.utime(made, (0, time.time() - 3700))
    delete_abandoned(temporary, PREFIX)
    assert not made.exists()
