"""One standalone cluster of two workers for all tests of this folder, and one Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shardline.spark.session import session
from tests.spark.cluster import Cluster, cluster
from tests.spark.conftest import foreign_stream, service, stream
from tests.spark.consumer_fixtures import lease_table, recordings, running
from tests.spark.streams import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["foreign_stream", "lease_table", "recordings", "running", "service", "stream"]


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[Cluster]:
    """A cluster with room for a second application beside the session of the tests."""
    with cluster(workers=2, cores=2) as started:
        yield started


@pytest.fixture(scope="session")
def spark(spark_cluster: Cluster) -> Iterator[SparkSession]:
    started = session(
        "tests",
        spark_cluster.master_url,
        spark__driver__host="127.0.0.1",
        spark__cores__max="2",
        spark__executor__cores="1",
        spark__executor__memory="512m",
        spark__sql__streaming__stopTimeout="30s",
    )
    started.sparkContext.setLogLevel("ERROR")
    wait_until(lambda: len(spark_cluster.executors()) == 2, "both workers run an executor")
    yield started
    started.stop()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs against another's service: that it runs on a cluster adds nothing."""
    foreign = [item for item in items if _is_foreign(item)]
    items[:] = [item for item in items if item not in foreign]
    config.hook.pytest_deselected(items=foreign)


def _is_foreign(item: pytest.Item) -> bool:
    here = item.path.parent == Path(__file__).parent
    return here and "foreign_stream" in item.name
