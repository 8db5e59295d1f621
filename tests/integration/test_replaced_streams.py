"""Consumers of a table whose streaming is switched off and on: nothing of either stream is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from shardline.local import Service
from tests.integration.changing_table import STREAM_ON, create_things
from tests.integration.worker_runs import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as service:
        yield service


class Table:
    """A table with one item, whose value counts on, and a consumer of its changes."""

    def __init__(self, service: Service, folder: Path) -> None:
        self._client = service.client("dynamodb")
        self._folder = folder
        self._url = service.endpoint_url
        self._value = 0
        self._file = folder / "changes.jsonl"
        create_things(self._client, "things")

    def write(self, count: int) -> None:
        for _ in range(count):
            self._value += 1
            item: dict[str, Any] = {"id": {"S": "x"}, "place": {"N": "1"}}
            item["value"] = {"N": str(self._value)}
            self._client.put_item(TableName="things", Item=item)

    def switch(self) -> None:
        """Switch streaming off and on."""
        off = {"StreamEnabled": False}
        self._client.update_table(TableName="things", StreamSpecification=off)
        time.sleep(0.01)  # two streams of one millisecond would have one name
        self._client.update_table(TableName="things", StreamSpecification=STREAM_ON)

    def consume(self) -> subprocess.Popen[bytes]:
        arguments = [
            *(sys.executable, "-m", "shardline", "run"),
            *("tests.integration.snapshot_consumer:Copier", "--stream", "dynamodb://things"),
            *("--app", "copy", "--engine", "process", "--lease-seconds", "6"),
            *("--lease-table", f"sqlite:///{self._folder}/leases.db"),
            *("--endpoint-url", self._url),
        ]
        environment = {"SNAPSHOT_TABLE": "things", "SNAPSHOT_FILE": str(self._file)}
        with (self._folder / "output.txt").open("a") as output:
            return subprocess.Popen(
                arguments,
                env=os.environ | environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def values(self) -> list[int]:
        text = self._file.read_text("utf-8") if self._file.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line)["value"] for line in lines]

    def wait_for(self, last: int) -> None:
        wait_until(lambda: last in self.values(), f"{last} is delivered")

    def output(self) -> str:
        return (self._folder / "output.txt").read_text()

    def close(self) -> None:
        self._client.close()


@pytest.mark.case("X-06")
def test_a_consumer_drains_the_old_stream_and_goes_on_with_the_new_one(
    service: Service, tmp_path: Path
) -> None:
    table = Table(service, tmp_path)
    worker = table.consume()
    try:
        table.write(5)
        table.wait_for(5)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, table.output()
        table.write(5)  # nobody reads them while this stream is on
        table.switch()
        table.write(5)
        worker = table.consume()
        table.wait_for(15)
        table.switch()  # while it runs
        table.write(5)
        table.wait_for(20)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, table.output()
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        table.close()
    assert table.values() == list(range(1, 21))
    assert table.output().count("was switched off and on") == 2
