"""The consumer of the README on a standalone cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.readme import run_readme_consumer

if TYPE_CHECKING:
    from pathlib import Path

    from shardline.local.service import Service
    from tests.servers import Database
    from tests.spark.cluster import Cluster


def test_the_consumer_of_the_readme_on_a_cluster(
    service: Service, spark_cluster: Cluster, postgresql: Database, tmp_path: Path
) -> None:
    (tmp_path / "cluster").symlink_to(spark_cluster.folder)
    run_readme_consumer(
        tmp_path,
        service.client("kinesis"),
        service.endpoint_url,
        *("--master", spark_cluster.master_url, "--tasks", "2"),
        *("--lease-table", postgresql.dsn),
        printed_in=["cluster/work-*/app-*/*/std*"],
    )
