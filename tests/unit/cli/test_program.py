"""The program as a whole: help with an example for each command, exit codes, version, start-up."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from shardline import errors
from shardline.cli import app
from shardline.cli.program import ExitCode, _RepeatFilter, exit_code_of, with_option_names
from shardline.leases.port import TableUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))


@pytest.mark.parametrize("command", list(_commands(typer.main.get_command(app))), ids=" ".join)
def test_every_help_has_an_example(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"shardline {command[0]}" in result.output


def test_the_help_documents_every_exit_code() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    for code in ExitCode:
        assert f"{code.value} " in text[text.index("Exit codes") :]


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("shardline ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError, ExitCode.USAGE),
        (errors.InvalidPosition, ExitCode.USAGE),
        (errors.StreamNotFound, ExitCode.SERVICE),
        (errors.Throttled, ExitCode.SERVICE),
        (errors.GapError, ExitCode.GAP),
        (errors.PromiseBroken, ExitCode.FAILED),
        (errors.LeaseLost, ExitCode.FAILED),
        (TableUnavailable, ExitCode.SERVICE),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    error: type[errors.ShardlineError], code: ExitCode
) -> None:
    assert exit_code_of(error("x")) is code


def test_a_line_that_is_logged_again_and_again_is_shown_once_in_a_while() -> None:
    repeat_filter = _RepeatFilter()
    shown = [
        repeat_filter.filter(_logged("%s; again in %d s", "endpoint_url", n)) for n in range(5)
    ]
    assert shown == [True, False, False, False, False]
    other = _logged("%s; again in %d s", "another", 1)
    assert repeat_filter.filter(other)
    assert other.getMessage() == "another; again in 1 s"


def _logged(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("shardline", logging.WARNING, "", 1, text, arguments, None)


def test_an_error_speaks_of_options_and_is_one_line() -> None:
    assert with_option_names("pass region=… or\n  profile=…") == "pass --region … or --profile …"
    assert with_option_names("check endpoint_url") == "check --endpoint-url"
    lease_table = "the lease table dynamodb://x: check endpoint_url"
    assert with_option_names(lease_table).endswith("check --lease-endpoint-url")


def test_the_program_starts_without_loading_what_is_heavy() -> None:
    heavy = {"boto3", "botocore", "pyarrow", "numpy", "pyspark", "aiohttp", "sqlalchemy"}
    script = "import sys, shardline.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not heavy.intersection(loaded)
