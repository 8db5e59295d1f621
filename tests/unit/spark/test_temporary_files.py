"""The folder of Spark's temporary files: kept while its run lives, deleted by the next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from shardline.consumer.temporary_folder import delete_abandoned
from shardline.spark.temporary_files import PREFIX, TemporaryFiles

HOLDER = """
import time
from shardline.spark.temporary_files import TemporaryFiles
print(TemporaryFiles().path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_deleted_at_the_end_with_all_that_is_in_it(temporary: Path) -> None:
    files = TemporaryFiles()
    with files.for_python():
        assert Path(tempfile.mkdtemp()).parent == files.path
    assert Path(tempfile.gettempdir()) == temporary
    files.delete()
    files.delete()
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_run_that_was_killed_is_deleted_by_the_next_start(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    ) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        assert folder.parent == temporary
        (folder / "blockmgr-1").mkdir()
        mine = TemporaryFiles()
        assert folder.exists()  # its run lives
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    TemporaryFiles()
    assert not folder.exists()
    assert mine.path.exists()


def test_what_is_not_a_folder_of_ours_is_left_alone(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (temporary / "shardline-spark-link").symlink_to(elsewhere)
    (temporary / "shardline-spark-new").mkdir()  # not locked yet
    delete_abandoned(temporary, PREFIX)
    assert (elsewhere / "lock").exists()
    assert (temporary / "shardline-spark-new").exists()


def test_a_folder_whose_path_is_too_long_for_sockets_is_not_given_to_java(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = temporary / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert TemporaryFiles().java_options() == ""
