"""The consumer of the README without Spark; tests/spark and tests/cluster run it on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.local import Service
from tests.readme import run_readme_consumer

if TYPE_CHECKING:
    from pathlib import Path


def test_the_consumer_of_the_readme_in_a_process(tmp_path: Path) -> None:
    with Service(strict=True) as service:
        client = service.client("kinesis")
        run_readme_consumer(tmp_path, client, service.endpoint_url, "--engine", "process")
