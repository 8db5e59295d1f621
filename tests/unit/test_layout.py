"""The layout holds: import direction, pure core, telling names, small files, no machine's paths."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from tools import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rule = Callable[[PurePosixPath, ast.Module], Iterator[str]]

ROOT = Path(__file__).parents[2]


def parsed(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "node_modules" not in path.parts:
                yield path, ast.parse(path.read_text(encoding="utf-8"), str(path))


def tracked() -> Iterator[tuple[PurePosixPath, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            yield PurePosixPath(name), content.decode("utf-8")


@pytest.mark.parametrize("rule", [layout.wrong_imports, layout.impure_core])
def test_the_layers_of_the_package(rule: Rule) -> None:
    source = ROOT / "src"
    wrong = [
        line
        for path, tree in parsed("src")
        for line in rule(PurePosixPath(path.relative_to(source)), tree)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_names_say_what_is_inside() -> None:
    wrong = [
        line
        for path, tree in parsed("src", "tests", "tools", "bench")
        for line in layout.forbidden_names(PurePosixPath(path.relative_to(ROOT)), tree)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_module_says_what_it_is_for() -> None:
    wrong = [
        line
        for path, tree in parsed("src")
        for line in layout.missing_docstring(PurePosixPath(path.relative_to(ROOT)), tree)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_files_are_small() -> None:
    wrong = [
        line
        for path, text in tracked()
        if path.suffix == ".py"
        for line in layout.too_long(path, text)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_nothing_is_true_on_one_machine_only() -> None:
    wrong = [
        line for path, text in tracked() for line in layout.foreign_addresses(path, text, str(ROOT))
    ]
    assert not wrong, "\n" + "\n".join(wrong)


# ── The rules themselves: each finds what it is for, and leaves the good alone ──


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("shardline/core/a.py", "from shardline.services import port"),
        ("shardline/core/a.py", "import shardline.services.port"),
        ("shardline/core/a.py", "from shardline import services"),
        ("shardline/core/a.py", "from ..services import port"),
        ("shardline/core/a.py", "from .. import services"),
        ("shardline/core/a.py", "from shardline import Record"),
        ("shardline/errors.py", "from shardline.core.shards import Shard"),
        ("shardline/services/a.py", "def f():\n    from shardline.local import Service"),
        (
            "shardline/spark/a.py",
            "if TYPE_CHECKING:\n    from shardline.local.service import Service",
        ),
        ("shardline/streams/a.py", "from shardline.cli import main"),
    ],
)
def test_an_import_against_the_direction_is_found(path: str, source: str) -> None:
    assert len([*layout.wrong_imports(PurePosixPath(path), ast.parse(source))]) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("shardline/core/a.py", "from shardline.core.shards import Shard"),
        ("shardline/core/a.py", "from .shards import Shard"),
        ("shardline/core/a.py", "from shardline.errors import GapError"),
        ("shardline/cli/a.py", "from shardline.local import Service\nimport typer"),
        ("shardline/__init__.py", "from shardline.streams import stream"),
        ("pyspark_kinesis/__init__.py", "from shardline.spark.driver.source import KinesisSource"),
    ],
)
def test_an_import_along_the_direction_is_left_alone(path: str, source: str) -> None:
    assert [*layout.wrong_imports(PurePosixPath(path), ast.parse(source))] == []


@pytest.mark.parametrize(
    "source",
    [
        *("import os", "import time", "import threading", "import logging", "import boto3"),
        *("from asyncio import sleep", "import pyarrow as pa", "from pathlib import Path"),
        *("at = datetime.now(UTC)", "at = date.today()", "open('x')", "print(1)"),
        *("json.load(file)", "np.random.default_rng()"),
    ],
)
def test_a_core_that_acts_is_found(source: str) -> None:
    found = [*layout.impure_core(PurePosixPath("shardline/core/a.py"), ast.parse(source))]
    assert len(found) == 1
    assert [*layout.impure_core(PurePosixPath("shardline/local/a.py"), ast.parse(source))] == []


def test_a_core_that_decides_is_left_alone() -> None:
    source = "from datetime import datetime\ndef f(now: datetime) -> int: return now.hour"
    assert [*layout.impure_core(PurePosixPath("shardline/core/a.py"), ast.parse(source))] == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("src/shardline/core/utils.py", ""),
        ("src/shardline/common/shards.py", ""),
        ("tests/test_helper_shards.py", ""),
        ("src/a.py", "class LeaseManager: ..."),
        ("src/a.py", "class BaseLease: ..."),
        ("src/a.py", "class _HTTPHelper: ..."),
    ],
)
def test_a_name_that_says_nothing_is_found(path: str, source: str) -> None:
    assert len([*layout.forbidden_names(PurePosixPath(path), ast.parse(source))]) == 1


def test_names_that_only_contain_such_words_are_left_alone() -> None:
    source = "class Database: ...\nclass Baseline: ...\nclass Commoner: ..."
    assert [*layout.forbidden_names(PurePosixPath("src/base64_text.py"), ast.parse(source))] == []


def test_a_module_without_docstring_is_found() -> None:
    path = PurePosixPath("src/a.py")
    assert [*layout.missing_docstring(path, ast.parse("x = 1"))]
    assert not [*layout.missing_docstring(path, ast.parse('"""What for."""'))]


def test_a_file_that_is_too_long_is_found() -> None:
    path = PurePosixPath("src/a.py")
    assert [*layout.too_long(path, "x\n" * 501)]
    assert not [*layout.too_long(path, "x\n" * 500)]


# Taken apart, so that this file does not contain what it looks for.
@pytest.mark.parametrize(
    "line",
    [
        "cd " + "/ro" + "ot/shardline",
        "path = '" + "/ho" + "me/ann/x'",
        "https://" + "py" + "pi.org/simple",
        '"resolved": "https://registry.np' + 'mjs.org/x"',
        "cd " + "/checkout/of/mine/src",
    ],
)
def test_what_is_true_on_one_machine_only_is_found(line: str) -> None:
    found = [*layout.foreign_addresses(PurePosixPath("a"), f"fine\n{line}\n", "/checkout/of/mine")]
    assert len(found) == 1
    assert found[0].startswith("a:2: ")


def test_addresses_that_are_the_same_everywhere_are_left_alone() -> None:
    text = "/usr/lib/jvm http://127.0.0.1:4567 src/checkout/x https://example.com/ho" + "me/x"
    assert [*layout.foreign_addresses(PurePosixPath("a"), text, "/checkout/of/mine")] == []


def test_a_checkout_named_as_a_folder_in_it_is_no_mistake() -> None:
    text = "$(BIN)/project demo\nsrc/project/core"
    assert [*layout.foreign_addresses(PurePosixPath("a"), text, "/project")] == []
