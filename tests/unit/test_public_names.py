"""The public names: importable, lazy, and exactly those of docs/reference.md."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import shardline

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", ["shardline", "shardline.spark", "shardline.local"])
def test_the_names_of_a_package_are_those_of_the_reference(module: str) -> None:
    documented = re.findall(rf"^\.\. auto\w+:: {module}\.(\w+)(?:\(\))?$", REFERENCE, re.MULTILINE)
    assert sorted(documented) == sorted(import_module(module).__all__)


def test_every_name_of_the_reference_exists() -> None:
    pytest.importorskip("pyspark")
    for name in re.findall(r"^\.\. auto(?:class|function):: ([\w.]+)", REFERENCE, re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name


def test_type_checkers_see_the_same_names_in_the_same_modules() -> None:
    tree = ast.parse((ROOT / "src/shardline/__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == shardline._MODULES


def test_a_function_of_a_package_is_never_shadowed_by_a_module_of_its_name() -> None:
    """Importing a submodule sets an attribute of its package, under the name of the submodule."""
    script = """
import pkgutil, shardline, shardline.local, shardline.spark
for package in (shardline, shardline.local, shardline.spark):
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
    lazy = set(package.__all__) - set(vars(package))
    print(*(modules & lazy))
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'strem'"):
        shardline.strem  # noqa: B018
    with pytest.raises(ImportError, match="strem"):
        exec("from shardline.spark import strem")  # noqa: S102


def test_importing_a_package_loads_nothing_heavy_and_starts_nothing() -> None:
    """No import has side effects: no thread, no handler, no patch, no third-party package."""
    script = """
import logging, signal, sys, threading
handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
before = set(sys.modules)
import shardline, shardline.spark
assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
assert threading.active_count() == 1
assert not logging.getLogger().handlers and not logging.getLogger("shardline").handlers
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {*loaded} & {"botocore", "numpy", "pyarrow", "pydantic", "pyspark", "sqlalchemy"}
