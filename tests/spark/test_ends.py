"""kill -9 and SIGTERM while Spark starts."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from shardline.local import Service
from tests.integration.test_ends import Command
from tests.integration.worker_runs import RECORDER, wait_until
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.req("K-10")
def test_what_spark_leaves_when_it_is_killed_is_deleted_by_the_next_start(tmp_path: Path) -> None:
    with Service(strict=True) as service:
        client = service.client("kinesis")
        client.create_stream(StreamName="orders", ShardCount=1)
        wait_until_active(client, "orders")
        arguments = (
            *("run", RECORDER, "--master", "local[1]", "--app", "billing"),
            *("--stream", "kinesis://orders", "--endpoint-url", service.endpoint_url),
            *("--lease-table", f"sqlite:///{tmp_path}/leases.db"),
        )

        def start() -> tuple[Command, Path]:
            """Return a run whose Java process starts, and the folder of its temporary files."""
            before = set((tmp_path / "tmp").glob("*/tmp*"))
            command = Command(tmp_path, *arguments)

            def folders() -> list[Path]:
                return [each for each in command.temporary.glob("*/tmp*") if each not in before]

            wait_until(lambda: bool(folders()), "Java is started")
            return command, folders()[0].parent

        killed, left = start()
        assert killed.end(signal.SIGKILL) == -signal.SIGKILL
        assert left.exists()
        again, mine = start()
        assert not left.exists()
        assert again.end(signal.SIGTERM) == 0
        assert "stopped while starting" in again.output
        assert list(again.temporary.iterdir()) == [mine]  # for the next start
