"""Fixtures of the contract suite, and the strict expectation of every known defect."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from shardline.local import Service
from tests.contract.defects import DEFECTS
from tests.contract.dynamodb_servers import TableUnderTest, new_table
from tests.contract.kinesis_servers import KinesisUnderTest, new_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect known defects strictly: a test that passes in spite of its entry is an error."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or "server" not in callspec.params:
            continue
        name = getattr(item, "originalname", item.name)
        reason = DEFECTS.get((callspec.params["server"], name))
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture(scope="session")
def shardline_local() -> Iterator[Service]:
    with Service(strict=True) as service:
        yield service


@pytest.fixture(scope="session")
def shardline_tables() -> Iterator[Service]:
    """Not strict: the suite of tables asks what an operation answers, with a client as it is."""
    with Service() as service:
        yield service


@pytest.fixture
def kinesis(
    server: str, request: pytest.FixtureRequest
) -> Iterator[Callable[..., KinesisUnderTest]]:
    """Make new streams: `kinesis()` or `kinesis(shards=4)`."""
    with ExitStack() as stack:
        yield lambda shards=1: stack.enter_context(new_stream(server, shards, request))


@pytest.fixture
def table(server: str, request: pytest.FixtureRequest) -> Iterator[TableUnderTest]:
    """A new table with a stream."""
    with new_table(server, request) as table:
        yield table
