"""The format for DynamoDB Streams: columns, and order through branching shards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from shardline import Engine, Model, key
from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from shardline.local.dynamodb_streams.changes import Item
    from shardline.local.service import Service

COLUMNS = [
    "eventID", "eventName", "eventVersion", "keys", "oldImage", "newImage", "sequenceNumber",
    "approximateCreationDateTime", "sizeBytes", "shardId", "stream", "userIdentity",
]  # fmt: skip


class User(Model):
    id: str = key()
    age: int
    tags: set[str] | None = None


class StoredUser(Model):
    class Meta:
        table = "users"
        stream = {"new", "old"}  # noqa: RUF012

    id: str = key()
    age: int


def load(spark: SparkSession, service: Service, **options: str) -> DataFrame:
    reader = spark.readStream.format("dynamodb-streams").option("tableName", "users")
    reader = reader.option("endpointUrl", service.endpoint_url)
    for name, value in ({"startingPosition": "trim_horizon"} | options).items():
        reader = reader.option(name, value)
    return reader.load()


def run(rows: DataFrame, checkpoint: Path) -> list[Any]:
    """Run until all that is there has come, and return the batches."""
    batches: list[Any] = []
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: batches.append(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90), "it did not end"
    return batches


@pytest.mark.req("C-18", "C-24", "P-01")
@pytest.mark.case("L-19", "R-13")
def test_order_through_branching_shards_and_a_restart(
    service: Service, spark: SparkSession, tmp_path: Path
) -> None:
    checker, batch_id = PromiseChecker(), 0
    service.tables.create_table("users", shards=2)

    def put(count: int) -> None:
        for n in range(count):
            keys = {"id": {"S": f"user-{n % 9}"}}
            put = service.tables.put_change("users", keys, new=keys | {"n": {"N": str(n)}})
            checker.wrote(put.shard, RecordRef(f"user-{n % 9}", int(put.sequence_number)))

    def branch() -> None:
        service.tables.split("users", open_shards()[0])
        service.tables.roll("users", open_shards()[-1])

    def open_shards() -> list[str]:
        """Return what is so: a listing of the strict service may lack the newest shards."""
        now_ms = service.clock.now_ms()
        shards = service.tables.find_stream("users", now_ms).listed(now_ms)
        for shard in shards:
            checker.shard(shard.id, [shard.parent] if shard.parent else [])
        return [shard.id for shard in shards if shard.last is None]

    rows = load(spark, service)
    assert rows.columns == COLUMNS
    for _ in range(2):
        put(30)
        branch()
        put(30)
        open_shards()
        for batch in run(rows, tmp_path):
            batch_id += 1
            for row in batch:
                record = RecordRef(json.loads(row["keys"])["id"]["S"], int(row.sequenceNumber))
                checker.delivered(row.shardId, Fence(0, batch_id), [record])
        assert checker.verdict().require().lost == 0


@pytest.mark.req("P-05")
def test_a_query_starts_with_the_table_and_goes_on_after_a_failed_batch(
    service: Service, spark: SparkSession, tmp_path: Path
) -> None:
    with Engine(endpoint_url=service.endpoint_url) as engine:
        engine.bind(StoredUser)
        engine.save(*(StoredUser(id=f"user-{n}", age=n) for n in range(20)))
        options = {"startingPosition": "snapshot", "model": f"{__name__}:StoredUser"}
        rows = load(spark, service, **options, snapshotSegments="4", maxRecordsPerBatch="1")
        came: list[tuple[int, list[Any]]] = []

        def receive(batch: DataFrame, batch_id: int) -> None:
            came.append((batch_id, batch.collect()))
            if len(came) == 3:
                engine.save(StoredUser(id="user-3", age=300), StoredUser(id="late", age=1))
                engine.delete(StoredUser(id="user-5", age=5))
                raise RuntimeError("the sink failed")

        def start() -> Any:
            writer = rows.writeStream.foreachBatch(receive).trigger(availableNow=True)
            return writer.option("checkpointLocation", str(tmp_path)).start()

        with pytest.raises(Exception, match="the sink failed"):
            start().awaitTermination(90)
        assert start().awaitTermination(90), "it did not end"
    segments = [{row.shardId for row in batch} for _, batch in came]
    names = [f"snapshot-{n:04d}-of-0004" for n in range(4)]
    # The first batch holds the pins. The one that failed is read once more, as it was planned.
    assert segments[:6] == [set(), *({names[n]} for n in (0, 1, 1, 2, 3))]
    assert [batch_id for batch_id, _ in came[:6]] == [0, 1, 2, 2, 3, 4]
    copy: dict[str, int] = {}
    for _, batch in came:
        for row in batch:
            key = json.loads(row["keys"])["id"]["S"]
            copy.pop(key, None)
            if row.newImage is not None:
                copy[key] = row.newImage.age
    stored = {f"user-{n}": n for n in range(20) if n != 5} | {"user-3": 300, "late": 1}
    assert copy == stored
    kinds = [row.eventName for _, batch in came for row in batch]
    assert set(kinds) == {"SNAPSHOT", "INSERT", "MODIFY", "REMOVE"}
    reader = spark.read.format("dynamodb-streams").option("tableName", "users")
    bounded = reader.option("startingPosition", "snapshot").load()
    with pytest.raises(Exception, match=r"snapshot is for spark\.readStream"):
        bounded.collect()


@pytest.mark.req("P-05")
def test_images_are_the_service_s_own_json_and_deletes_say_by_whom(
    service: Service, spark: SparkSession, tmp_path: Path
) -> None:
    tables = service.tables
    tables.create_table("users")
    keys: Item = {"id": {"S": "ann"}}
    old: Item = keys | {"age": {"N": "41"}}
    new: Item = keys | {"age": {"N": "42"}, "tags": {"SS": ["a", "b"]}}
    tables.put_change("users", keys, new=old)
    tables.put_change("users", keys, old=old, new=new)
    tables.put_change("users", keys, old=new, by_ttl=True)
    rows = [row for batch in run(load(spark, service), tmp_path / "text") for row in batch]
    for number, option in enumerate(
        (
            {"itemSchema": "id STRING, age INT, tags ARRAY<STRING>"},
            {"model": f"{__name__}:User"},
        )
    ):
        typed = load(spark, service, **option)
        batches = run(typed, tmp_path / f"typed-{number}")
        images = [row.newImage for batch in batches for row in batch]
        assert images[:2] == [("ann", 41, None), ("ann", 42, ["a", "b"])]
        assert images[2] is None
    assert [row.eventName for row in rows] == ["INSERT", "MODIFY", "REMOVE"]
    assert [row.oldImage and json.loads(row.oldImage) for row in rows] == [None, old, new]
    assert [row.newImage and json.loads(row.newImage) for row in rows] == [old, new, None]
    assert json.loads(rows[0]["keys"]) == keys
    assert rows[0].userIdentity is None
    assert "dynamodb.amazonaws.com" in rows[2].userIdentity
    assert rows[0].stream == "users"
