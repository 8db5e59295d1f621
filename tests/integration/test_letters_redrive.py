"""`shardline letters redrive` while a worker runs: in order, nothing lost, the key goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.local import Service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONSUMER = """
import pathlib
import shardline

HERE = pathlib.Path(__file__).parent

class Billing(shardline.ShardConsumer):
    failure = shardline.DeadLetter(f"file://{HERE}/letters", per="key", attempts=1)

    def process(self, batch):
        for record in batch.records:
            if record.partition_key == "bad" and (HERE / "broken").exists():
                raise ValueError("no such account")
            with (HERE / "processed").open("a") as file:
                line = (record.partition_key, record.sequence_number, *batch.fence)
                file.write(" ".join(map(str, line)) + "\\n")
"""


class Scene:
    """A stream, a worker on it, and what was written and processed."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder = folder
        self.written: list[RecordRef] = []
        self._client = service.client("kinesis")
        self.options = (
            "--stream", "kinesis://orders", "--app", "billing",
            "--lease-table", f"sqlite:///{folder}/leases.db",
            "--endpoint-url", service.endpoint_url,
        )  # fmt: skip

    def put(self, *keys: str) -> None:
        for key in keys:
            answer = self._client.put_record(StreamName="orders", PartitionKey=key, Data=b"x")
            self.written.append(RecordRef(key, int(answer["SequenceNumber"])))

    def command(self, *typed: str) -> list[str]:
        return [sys.executable, "-m", "shardline", *typed]

    def run(self, *typed: str) -> str:
        done = subprocess.run(
            self.command(*typed), cwd=self.folder, capture_output=True, text=True, timeout=150
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def redrive(self) -> str:
        place = f"file://{self.folder}/letters"
        return self.run("letters", "redrive", place, "billing:Billing", *self.options, "--yes")

    @property
    def processed(self) -> list[tuple[RecordRef, Fence]]:
        file = self.folder / "processed"
        lines = file.read_text().splitlines() if file.exists() else []
        words = (line.split() for line in lines)
        return [(RecordRef(w[0], int(w[1])), Fence(int(w[2]), int(w[3]))) for w in words]

    def done(self, *, but: str = "") -> bool:
        """Return true if all records were processed, except those of one key."""
        found = {record for record, _ in self.processed}
        return all(record in found or record.key == but for record in self.written)

    @property
    def letters(self) -> list[Any]:
        from shardline.observation.dead_letter_reader import open_letters
        from shardline.services.access import Access

        return open_letters(f"file://{self.folder}/letters", Access()).read_all().letters()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 150
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.case("R-01")
def test_a_parked_key_is_redriven_while_a_worker_runs(tmp_path: Path) -> None:
    (tmp_path / "billing.py").write_text(CONSUMER)
    (tmp_path / "broken").touch()
    with Service(strict=True, status_delay_seconds=0) as service:
        service.create_stream("orders", 1)
        scene = Scene(tmp_path, service)
        scene.put(*["a", "bad", "b", "bad"] * 5)
        typed = scene.command("run", "billing:Billing", "--engine", "process", *scene.options)
        worker = subprocess.Popen(typed, cwd=tmp_path)
        try:
            wait_for(lambda: scene.done(but="bad") and len(scene.letters) == 10)
            scene.put(*["bad", "a"] * 5)
            wait_for(lambda: scene.done(but="bad") and len(scene.letters) == 15)
            (tmp_path / "broken").unlink()
            place = f"file://{tmp_path}/letters"
            text = scene.run(
                "letters", "redrive", place, "billing:Billing", *scene.options, "--yes"
            )
            assert "1 keys unparked" in text
            scene.put(*["bad", "b"] * 5)
            wait_for(scene.done)
        finally:
            worker.terminate()
            worker.wait(60)
        before = scene.processed
        scene.redrive()  # of what the worker wrote before it knew that its lease was gone
        assert (scene.letters, scene.processed) == ([], before)

    checker = PromiseChecker()
    for record in scene.written:
        checker.wrote("shard", record)
    for record, fence in scene.processed:
        checker.delivered("shard", fence, [record])
    checker.verdict().require()
