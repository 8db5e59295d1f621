"""Queries that start with the items of a table: restarted, crashed, split in the middle."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from shardline.errors import ConfigurationError
from shardline.local import Service
from shardline.spark.options import read_options
from tests.integration.changing_table import ChangingTable, seeds
from tests.integration.source_run import SourceRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.source_run import Row

DEADLINE_SECONDS = 90


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as service:
        yield service


def options_for(service: Service, table: str, **more: str) -> dict[str, str]:
    return {
        "tableName": table,
        "endpointUrl": service.endpoint_url,
        "startingPosition": "snapshot",
        **more,
    }


class Copy:
    """A copy of the table, kept as a sink would: batch by batch, the newest image of each key."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, int], int] = {}
        self.segments: list[str] = []
        """The segments in the batches, as often as they came."""
        self.changes = 0

    def apply(self, batch: list[list[Row]]) -> None:
        segments: set[str] = set()
        for row in (row for rows in batch for row in rows):
            keys = json.loads(row["keys"])
            key = keys["id"]["S"], int(keys["place"]["N"])
            if row["eventName"] == "SNAPSHOT":
                assert self.changes == 0, "an item of the table came after a change"
                segments.add(row["shardId"])
            else:
                self.changes += 1
            if row["newImage"] is None:
                self.items.pop(key, None)
            else:
                self.items[key] = int(json.loads(row["newImage"])["value"]["N"])
        self.segments += sorted(segments)


@pytest.mark.parametrize("seed", seeds(6))
def test_the_copy_equals_the_table_through_writes_a_split_and_crashes(
    service: Service, seed: int
) -> None:
    rng = random.Random(seed)
    table = ChangingTable(service, rng)
    for _ in range(rng.randrange(40)):
        table.write()
    given = options_for(
        service,
        table.name,
        snapshotSegments=str(rng.choice((1, 3, 7))),
        maxRecordsPerBatch=str(rng.choice((1, 5, 1000))),
    )
    copy = Copy()
    run = SourceRun("dynamodb-streams", given)
    reshard_at = rng.randrange(12)
    for turn in range(12):
        if turn == reshard_at:
            table.reshard()
        for _ in range(rng.randrange(4)):
            table.write()
        batch = run.step()
        if rng.random() < 0.3:  # a crash, before the batch is committed or after it
            run.close()
            run = SourceRun("dynamodb-streams", given, run.log)
            if batch is not None and rng.random() < 0.5:
                batch = run.rows(len(run.log) - 2)
        if batch is not None:
            copy.apply(batch)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while copy.items != table.stored:
        assert time.monotonic() < deadline, f"{len(copy.items)} of {len(table.stored)} are there"
        batch = run.step()
        if batch is not None:
            copy.apply(batch)
    run.close()
    table.close()
    assert len(copy.segments) == len(set(copy.segments)), "a committed segment was read again"


def test_a_restart_goes_on_with_the_segment_after_the_last_committed_one(service: Service) -> None:
    table = ChangingTable(service, random.Random(1))
    for _ in range(60):
        table.write()
    given = options_for(service, table.name, snapshotSegments="5", maxRecordsPerBatch="1")
    with SourceRun("dynamodb-streams", given) as run:
        assert run.step() == []  # the pins are written down first
        [first], [second] = run.step() or [], run.step() or []
    table.write()
    rest: list[list[Row]] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    with SourceRun("dynamodb-streams", given, run.log) as run:
        while run.offset().table is not None:
            assert time.monotonic() < deadline, "no change came after the table"
            rest += run.step() or []
    names = [{row["shardId"] for row in rows} for rows in (first, second, *rest[:3])]
    assert names == [{f"snapshot-{n:04d}-of-0005"} for n in range(5)]
    assert rest[3:], "the batch after the table holds changes"
    assert all(row["eventName"] != "SNAPSHOT" for rows in rest[3:] for row in rows)
    table.close()


def test_a_scan_keeps_to_its_units(service: Service) -> None:
    table = ChangingTable(service, random.Random(2))
    given = options_for(service, table.name, snapshotUnitsPerSecond="30", snapshotSegments="4")
    with SourceRun("dynamodb-streams", given) as run:
        run.step()
        committed, planned = (run._offsets(run.log[-1]) for _ in range(2))
        planned = run._plans.ask(committed, None, all_available=False) or {}
        tasks: list[Any] = list(run._plans.partitions(committed, planned))
    assert sum(task.units_per_second for task in tasks) == pytest.approx(30)
    assert sorted(n for task in tasks for n in task.segments) == [0, 1, 2, 3]
    table.close()


def test_what_cannot_be_is_refused() -> None:
    base = {"tableName": "users", "startingPosition": "snapshot"}
    for name, value in (
        ("snapshotSegments", "0"),
        ("snapshotSegments", "10000"),
        ("snapshotUnitsPerSecond", "0"),
        ("snapshotUnitsPerSecond", "many"),
    ):
        with pytest.raises(ConfigurationError, match=f"option {name}: "):
            read_options("dynamodb-streams", base | {name: value})
    with pytest.raises(ConfigurationError, match="no position"):
        read_options("kinesis", {"streamName": "orders", "startingPosition": "snapshot"})
