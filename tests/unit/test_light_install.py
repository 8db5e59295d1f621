"""The install without extras: what an executor with a DynamoDB lease table needs, and no more."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shardline.errors import EXTRAS, ConfigurationError, MissingExtra, optional_import

ROOT = Path(__file__).parents[2]

# Everything that a worker in a Spark task loads to read, deliver and checkpoint.
BASE_MODULES = (
    "shardline.consumer.consumer",
    "shardline.consumer.policies",
    "shardline.consumer.dead_letters",
    "shardline.consumer.keeper",
    "shardline.consumer.runner",
    "shardline.consumer.worker",
    "shardline.core.promise",
    "shardline.leases.coordinator",
    "shardline.leases.dynamodb",
    "tests.twins.lease_table",
    "shardline.services.connection",
    "shardline.services.kinesis",
    "shardline.services.dynamodb_streams",
    "shardline.spark",
    "shardline.streams.stream",
)


def run(script: str, *missing: str) -> subprocess.CompletedProcess[str]:
    """Run Python in which these packages are not installed."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({missing!r}));"
    return subprocess.run(
        [sys.executable, "-c", f"{hidden}{script}"], capture_output=True, text=True, check=False
    )


def test_the_base_needs_none_of_the_extras() -> None:
    ended = run(f"import {', '.join(BASE_MODULES)}; from shardline import stream", *EXTRAS)
    assert ended.stderr == ""
    assert ended.returncode == 0


@pytest.mark.parametrize(
    ("script", "package", "extra"),
    [
        ("from shardline import Engine", "pydantic", "tables"),
        ("from shardline import Model", "pydantic", "tables"),
        ("import shardline.leases.address as a; a.open_table('sqlite:///x')", "sqlalchemy", "sql"),
        ("import shardline.local", "aiohttp", "local"),
        ("import shardline.dashboard.server", "aiohttp", "local"),
        ("from shardline.spark import session; session()", "pyspark", "spark"),
    ],
)  # fmt: skip
def test_a_missing_extra_is_one_line_that_names_it(script: str, package: str, extra: str) -> None:
    ended = run(script, package)
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("shardline.errors.MissingExtra: ")
    assert last.endswith(
        f"needs {package}, which is not installed: pip install 'shardline[{extra}]'"
    )


def test_the_command_line_without_its_extra_is_one_line_and_no_traceback() -> None:
    ended = run(
        "sys.argv = ['shardline', 'doctor']; import shardline.__main__ as m; m.main()", "typer"
    )
    assert ended.returncode == 2
    assert ended.stderr == (
        "error: the command line needs typer, which is not installed: "
        "pip install 'shardline[cli]'\n"
    )


def test_a_missing_extra_is_a_configuration_error_and_an_import_error() -> None:
    with pytest.raises(MissingExtra) as caught, optional_import("this"):
        raise ModuleNotFoundError(name="aiohttp.web")
    assert isinstance(caught.value, ConfigurationError)
    assert isinstance(caught.value, ImportError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


def test_another_failed_import_is_left_as_it_is() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, optional_import("this"):
        raise ModuleNotFoundError("no such thing", name="anything")
    assert not isinstance(caught.value, MissingExtra)


def test_every_extra_of_a_message_is_one_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["optional-dependencies"]
    for module, extra in EXTRAS.items():
        assert any(line.startswith(module.replace("_", "-")) for line in declared[extra]), module
    assert set(declared) == {*EXTRAS.values(), "all"}
