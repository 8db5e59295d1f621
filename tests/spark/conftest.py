"""One Spark session for all tests of this folder, and streams to read with it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from shardline.local.service import Service
from shardline.spark.session import session
from tests.spark.consumer_fixtures import lease_table, recordings, running
from tests.spark.streams import Stream, kinesis_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.servers import Endpoint

__all__ = ["lease_table", "recordings", "running"]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    started = session("tests", "local[2]", spark__sql__streaming__stopTimeout="30s")
    started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()


@pytest.fixture
def service() -> Iterator[Service]:
    """The service at its worst: limits, empty pages, stale listings, cut answers."""
    with Service(strict=True) as started:
        yield started


@pytest.fixture
def stream(service: Service) -> Stream:
    return Stream(service.client("kinesis"), service.endpoint_url, f"orders-{next(_numbers)}")


@pytest.fixture
def foreign_stream(kinesalite: Endpoint) -> Stream:
    """A stream on a server that others wrote."""
    url = kinesalite.endpoint_url
    return Stream(kinesis_client(url), url, f"orders-{next(_numbers)}")
