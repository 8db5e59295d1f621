"""One Spark session for all tests of this folder, on a standalone cluster of two workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardline.spark.session import session
from tests.spark.cluster import cluster
from tests.spark.conftest import foreign_stream, service, stream
from tests.spark.streams import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["foreign_stream", "service", "stream"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with cluster(workers=2) as started:
        running = session(
            "tests",
            started.master_url,
            spark__driver__host="127.0.0.1",
            spark__executor__memory="512m",
            spark__sql__streaming__stopTimeout="30s",
        )
        running.sparkContext.setLogLevel("ERROR")
        wait_until(lambda: len(started.executors()) == 2, "both workers run an executor")
        yield running
        running.stop()
