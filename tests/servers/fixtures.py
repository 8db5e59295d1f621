"""One session-wide fixture for each server; without the server a test is skipped, or fails."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests import servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

Server = TypeVar("Server")


@contextmanager
def _or_skip(server: AbstractContextManager[Server]) -> Iterator[Server]:
    try:
        running = server.__enter__()
    except servers.ServerMissing as missing:
        if os.environ.get("SHARDLINE_REQUIRE_SERVERS") == "1":
            raise
        pytest.skip(str(missing))
    try:
        yield running
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def kinesalite() -> Iterator[servers.Endpoint]:
    with _or_skip(servers.kinesalite()) as server:
        yield server


@pytest.fixture(scope="session")
def kinesis_mock() -> Iterator[servers.Endpoint]:
    with _or_skip(servers.kinesis_mock()) as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb_local() -> Iterator[servers.Endpoint]:
    with _or_skip(servers.dynamodb_local()) as server:
        yield server


@pytest.fixture(scope="session")
def ministack() -> Iterator[servers.Endpoint]:
    with _or_skip(servers.ministack()) as server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[servers.Database]:
    with _or_skip(servers.postgresql()) as server:
        yield server
