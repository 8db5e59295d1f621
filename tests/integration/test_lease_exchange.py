"""`shardline leases export` and `import`: an app goes on in another table, or after the KCL."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from shardline.leases.address import open_table
from shardline.local import Service
from shardline.observation.observation import read_all_rows
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST = "shardId-000000000000"
CONSUMER = """
import pathlib
import shardline

class Billing(shardline.ShardConsumer):
    def process(self, batch):
        with (pathlib.Path(__file__).parent / "processed").open("a") as file:
            for record in batch.records:
                file.write(f"{record.data.decode()} {batch.fence.epoch}\\n")
"""


class Scene:
    """A stream of one shard, and commands on it."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder = folder
        self.service = service
        self.client = service.client("kinesis")
        (folder / "billing.py").write_text(CONSUMER)

    def put(self, *numbers: int) -> list[str]:
        put = self.client.put_record
        answers = [put(StreamName="orders", PartitionKey="a", Data=str(n)) for n in numbers]
        return [answer["SequenceNumber"] for answer in answers]

    def table(self, name: str) -> str:
        return f"sqlite:///{self.folder}/{name}.db"

    def command(self, *typed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "shardline", *typed],
            cwd=self.folder, capture_output=True, text=True, timeout=150,
        )  # fmt: skip

    def leases(self, verb: str, table: str, *options: str) -> subprocess.CompletedProcess[str]:
        return self.command(
            "leases", verb, "kinesis://orders", "--app", "billing", "--lease-table", table, *options
        )

    def consume_until(self, table: str, number: int) -> None:
        """Run a worker until a number was processed, then stop it as a deployment does."""
        typed = [
            *("run", "billing:Billing", "--stream", "kinesis://orders", "--app", "billing"),
            *("--lease-table", table, "--engine", "process"),
            *("--endpoint-url", self.service.endpoint_url),
        ]
        with subprocess.Popen(
            [sys.executable, "-m", "shardline", *typed], cwd=self.folder
        ) as worker:
            try:
                while number not in [n for n, _ in self.processed]:
                    with suppress(subprocess.TimeoutExpired):
                        pytest.fail(f"the worker has ended: {worker.wait(0.1)}")
            finally:
                worker.terminate()

    @property
    def processed(self) -> list[tuple[int, int]]:
        """Numbers that were processed, each with its epoch."""
        file = self.folder / "processed"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Service(strict=True) as service:
        service.create_stream("orders", 1)
        client = service.client("kinesis")
        wait_until_active(client, "orders")
        yield Scene(tmp_path, service)


def test_an_app_goes_on_in_another_table_with_nothing_repeated(scene: Scene) -> None:
    old, new = scene.table("old"), scene.table("new")
    scene.put(0, 1, 2)
    scene.consume_until(old, 2)
    exported = scene.leases("export", old)
    assert exported.returncode == 0, exported.stderr
    (scene.folder / "leases.json").write_text(exported.stdout)
    here = ("--from", "leases.json", "--endpoint-url", scene.service.endpoint_url)
    tried = scene.leases("import", new, *here, "--dry-run")
    assert f"would start {FIRST} at" in tried.stdout
    imported = scene.leases("import", new, *here, "--yes", "--json")
    assert json.loads(imported.stdout)["done"], imported.stderr
    scene.put(3, 4)
    scene.consume_until(new, 4)
    numbers, epochs = zip(*scene.processed, strict=True)
    assert numbers == (0, 1, 2, 3, 4)
    assert epochs[3] > epochs[2]  # fences go on rising in the new table
    again = scene.leases("import", new, *here, "--yes")
    assert again.returncode == 2
    assert "has leases in" in again.stderr


def test_leases_of_a_stream_that_was_made_again_are_refused(scene: Scene) -> None:
    scene.put(0)
    scene.consume_until(scene.table("old"), 0)
    document = json.loads(scene.leases("export", scene.table("old")).stdout)
    document["stream_created_at"] = "2020-01-01T00:00:00+00:00"
    (scene.folder / "leases.json").write_text(json.dumps(document))
    here = ("--from", "leases.json", "--endpoint-url", scene.service.endpoint_url)
    refused = scene.leases("import", scene.table("new"), *here, "--yes")
    assert refused.returncode == 2
    assert "was made again" in refused.stderr


def kcl_app(scene: Scene, checkpoint: str) -> None:
    """Create a lease table as the Kinesis Client Library does, with one row."""
    dynamodb = scene.service.client("dynamodb")
    dynamodb.create_table(
        TableName="billing-kcl",
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.get_waiter("table_exists").wait(TableName="billing-kcl", WaiterConfig={"Delay": 0.1})
    dynamodb.put_item(
        TableName="billing-kcl",
        Item={
            "leaseKey": {"S": FIRST},
            "checkpoint": {"S": checkpoint},
            "checkpointSubSequenceNumber": {"N": "0"},
            "leaseCounter": {"N": "12"},
            "ownerSwitchesSinceCheckpoint": {"N": "0"},
        },
    )


def import_from_kcl(scene: Scene, table: str, *options: str) -> subprocess.CompletedProcess[str]:
    url = scene.service.endpoint_url
    return scene.leases(
        "import", table, "--from-kcl", "billing-kcl", "--yes", "--watch-seconds", "0",
        "--endpoint-url", url, "--lease-endpoint-url", url, *options,
    )  # fmt: skip


def test_an_app_of_the_kcl_goes_on_after_its_checkpoint(scene: Scene) -> None:
    sequence_numbers = scene.put(0, 1, 2)
    kcl_app(scene, sequence_numbers[1])
    table = scene.table("new")
    imported = import_from_kcl(scene, table)
    assert imported.returncode == 0, imported.stderr
    scene.consume_until(table, 2)
    assert [number for number, _ in scene.processed] == [2]


def test_a_shard_in_which_the_kcl_processed_nothing_needs_a_start(scene: Scene) -> None:
    kcl_app(scene, "LATEST")
    refused = import_from_kcl(scene, scene.table("new"))
    assert refused.returncode == 2
    assert f"processed nothing in {FIRST}" in refused.stderr
    imported = import_from_kcl(scene, scene.table("new"), "--start", "trim_horizon")
    assert imported.returncode == 0, imported.stderr
    (row,) = read_all_rows(open_table(scene.table("new")), "billing", "orders")
    assert not row.completed
