"""Which file the embedded service takes for its journal, and which it refuses and leaves alone."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shardline.errors import ConfigurationError
from shardline.local import Service
from tests.integration.test_local_file import STREAM


@pytest.mark.req("E-05")
@pytest.mark.parametrize("name", ["a.db", "a.db-wal", "a.db-shm", "a.db-journal"])
def test_no_file_is_opened_through_a_symbolic_link(tmp_path: Path, name: str) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"untouched")
    (tmp_path / name).symlink_to(target)
    with pytest.raises(ConfigurationError, match=rf"{name} is a symbolic link"):
        Service(file=tmp_path / "a.db")
    assert target.read_bytes() == b"untouched"


def damage(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as database:
        database.execute(statement)
    database.close()


@pytest.mark.req("E-05")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET content = x'c1'",
        "UPDATE entries SET content = x'c0'",
        "UPDATE entries SET kind = 'other'",
        "UPDATE entries SET at_ms = 9e18 WHERE place = 2",
        "UPDATE entries SET at_ms = 'x'",
        "DELETE FROM entries WHERE place = 1",
        "DROP TABLE entries",
    ],
)
def test_a_damaged_journal_is_one_line_that_says_what_to_do(tmp_path: Path, statement: str) -> None:
    file = tmp_path / "a.db"
    with Service(file=file) as service:
        service.create_stream(STREAM)
        service.client().put_record(StreamName=STREAM, PartitionKey="a", Data=b"1")
    damage(file, statement)
    if statement.startswith("DROP"):
        damage(file, "CREATE TABLE entries (place TEXT)")
    with pytest.raises(ConfigurationError) as refused:
        Service(file=file)
    line = str(refused.value)
    assert re.fullmatch(
        r"cannot (open|restore) .*a\.db: .*: move it away, or use another file", line
    )
    # It is not locked, and what was in it is not destroyed.
    sqlite3.connect(file, timeout=0).execute("SELECT count(*) FROM entries").fetchone()


@pytest.mark.req("E-05")
def test_a_file_that_is_no_journal_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    file.write_bytes(b"a letter to my aunt, and not a database at all " * 100)
    with pytest.raises(ConfigurationError, match="move it away, or use another file"):
        Service(file=file)
    assert file.read_bytes().startswith(b"a letter")


@pytest.mark.req("E-05")
def test_another_process_does_not_get_a_file_that_is_open(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    program = f"from shardline.local import Service; Service(file={str(file)!r})"
    for _ in range(2):  # a new file, and one that exists
        with Service(file=file):
            second = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=False
            )
            assert "another service has it open" in second.stderr


@pytest.mark.req("E-05")
def test_what_is_no_regular_file_keeps_its_mode(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    with pytest.raises(ConfigurationError, match="not a regular file: use another file"):
        Service(file=pipe)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o666


@pytest.mark.req("E-05")
def test_the_database_of_another_program_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    damage(file, "CREATE TABLE customers (name TEXT)")
    file.chmod(0o644)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match=r"another program .*: use another file"):
        Service(file=file)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (before, 0o644)
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.req("E-05")
def test_a_journal_without_its_entries_is_damaged_and_not_empty(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with Service(file=file) as service:
        service.create_stream(STREAM)
    damage(file, "DROP TABLE entries")
    with pytest.raises(ConfigurationError, match="move it away, or use another file"):
        Service(file=file)


@pytest.mark.req("E-05")
def test_a_file_may_have_the_name_that_sqlite_gives_to_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for created in (True, False):
        with Service(file=":memory:") as service:
            if created:
                service.create_stream(STREAM)
            assert service.shard_counts() == {STREAM: 1}
