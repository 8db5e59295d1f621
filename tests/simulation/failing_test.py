"""Runs tests with the code as it is in this process, bugs included, until the first one fails."""

from __future__ import annotations

import logging
import os
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


class _FirstFailure:
    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid.partition("[")[0]


def first_failure(paths: list[str]) -> str:
    """Return the name of the first test that fails; empty if all pass.

    They run in a fork: it has the bugs that are switched on, and nothing of the tests stays here.
    """
    context = get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_run, args=(there, paths))
    process.start()
    there.close()
    try:
        name: str = here.recv()
    finally:
        process.join()
    return name


def _run(answer: Connection, paths: list[str]) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    logging.disable(logging.NOTSET)
    found = _FirstFailure()
    options = ["-q", "-x", "-p", "no:cacheprovider", "--assert=plain", "--timeout=60"]
    code = pytest.main([*options, *paths], plugins=[found])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        found.name = ""  # it could not be run at all
    answer.send(found.name)
    answer.close()
    os._exit(0)
