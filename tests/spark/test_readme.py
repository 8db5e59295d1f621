"""The consumer of the README on a local master."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.readme import run_readme_consumer

if TYPE_CHECKING:
    from pathlib import Path

    from shardline.local.service import Service


def test_the_consumer_of_the_readme_on_a_local_master(service: Service, tmp_path: Path) -> None:
    client = service.client("kinesis")
    run_readme_consumer(tmp_path, client, service.endpoint_url, "--master", "local[2]")
