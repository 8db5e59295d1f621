"""Queries that start with the items of tables, under load, with a split in the middle."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from shardline.local.service import Service
from tests.integration.changing_table import ChangingTable, Load, seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

DEADLINE_SECONDS = 200
RESTARTS = 5
TOGETHER = 5
"""Tables that one query copies: each has a seed of its own."""

GROUPS = [list(seeds(2))[first : first + TOGETHER] for first in seeds(2)[::TOGETHER]]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as started:
        yield started


class Copy:
    """A copy of a table, kept as a sink would: batch by batch, the newest image of each key."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, int], int] = {}
        self.kinds: set[str] = set()

    def apply(self, row: Any) -> None:
        keys = json.loads(row["keys"])
        key = keys["id"]["S"], int(keys["place"]["N"])
        self.items.pop(key, None)
        if row.newImage is not None:
            self.items[key] = row.newImage.value
        if row.eventName == "SNAPSHOT":
            assert self.kinds <= {"SNAPSHOT"}, "an item of the table came after a change"
        self.kinds.add(row.eventName)


class CopyingQuery:
    """A query that copies tables; start it again, and it goes on from its checkpoint."""

    def __init__(self, rows: DataFrame, tables: list[str], checkpoint: Path) -> None:
        self.copies = {name: Copy() for name in tables}
        self._writer = rows.writeStream.option("checkpointLocation", str(checkpoint))
        self._grown = threading.Condition()
        self._runs = 0
        self.start()

    def start(self) -> None:
        self._runs += 1
        self._query = self._writer.foreachBatch(self._sink(self._runs)).start()

    def stop(self) -> None:
        self._query.stop()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition; a query whose Python did not start in Spark's 10 s starts again."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        with self._grown:
            while not self._grown.wait_for(condition, timeout=1):
                assert time.monotonic() < deadline, f"not in time: {what}"
                if not self._query.isActive:
                    failure = str(self._query.exception())
                    assert "failed to connect back" in failure, failure
                    assert self._runs < RESTARTS, failure
                    self.start()

    def _sink(self, run: int) -> Callable[[DataFrame, int], None]:
        def receive(batch: DataFrame, _: int) -> None:
            rows = batch.collect()
            with self._grown:
                if run == self._runs:  # what is left of a run before changes nothing
                    for row in rows:
                        self.copies[row.stream].apply(row)
                    self._grown.notify_all()

        return receive


@pytest.mark.timeout(900)
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_copies_equal_their_tables_under_load_with_splits_and_a_restart(
    service: Service, spark: SparkSession, tmp_path: Path, group: list[int]
) -> None:
    rng = random.Random(group[0])
    tables = {t.name: t for seed in group for t in [written_table(service, seed)]}
    rows = (
        spark.readStream.format("dynamodb-streams")
        .option("tableName", ",".join(tables))
        .option("endpointUrl", service.endpoint_url)
        .option("startingPosition", "snapshot")
        .option("itemSchema", "value INT")
        .option("snapshotSegments", str(rng.choice((1, 3, 7))))
        .option("maxRecordsPerBatch", str(rng.choice((100, 1000, 1_000_000))))
        .load()
    )
    with ExitStack() as stack:
        loads = {
            name: stack.enter_context(Load(tables[name], random.Random(seed), pause_seconds=0.05))
            for name, seed in zip(tables, group, strict=True)
        }
        query = CopyingQuery(rows, list(tables), tmp_path)
        stack.callback(query.stop)
        copies = query.copies
        for name, load in loads.items():
            query.wait_for(lambda: bool(copies[name].kinds), "the first items")  # noqa: B023
            load.items_came()
        if rng.random() < 0.5:
            query.stop()
            query.start()
        for name, load in loads.items():
            query.wait_for(lambda: copies[name].kinds > {"SNAPSHOT"}, "a change")  # noqa: B023
            load.changes_came()
        for name, load in loads.items():
            load.join(DEADLINE_SECONDS)
            query.wait_for(
                lambda: copies[name].items == tables[name].stored,  # noqa: B023
                "the copy equals the table",
            )
    for table in tables.values():
        table.close()


def written_table(service: Service, seed: int) -> ChangingTable:
    """Return a table with some items, of which some are large."""
    table = ChangingTable(service, random.Random(seed), large=True)
    for _ in range(random.Random(-seed).randrange(1, 80)):
        table.write()
    return table
