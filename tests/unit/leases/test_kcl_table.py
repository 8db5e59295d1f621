"""Places of the Kinesis Client Library as lease rows of ours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.gaps import Verdict, judge
from shardline.core.leasing.rows import Header
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import ConfigurationError
from shardline.leases.kcl_table import KclLease, leases_of, rows_of, without_place
from shardline.services.port import StreamDescription

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
CREATED = NOW - timedelta(days=90)
STREAM = StreamDescription("orders", "arn", CREATED, True, 24 * 3600, NOW)
HEADER = Header("billing", "orders", CREATED, TRIM_HORIZON, settled=True)


def item(shard_id: str, checkpoint: str, sub: int = 0) -> dict[str, dict[str, str]]:
    return {
        "leaseKey": {"S": shard_id},
        "checkpoint": {"S": checkpoint},
        "checkpointSubSequenceNumber": {"N": str(sub)},
        "leaseCounter": {"N": "17"},
        "leaseOwner": {"S": "worker-1"},
    }


def lease(shard_id: str, checkpoint: str, sub: int = 0) -> KclLease:
    return KclLease(shard_id, checkpoint, sub, 17, "worker-1")


def test_items_become_leases() -> None:
    assert leases_of([item("s-0", "4951", 3)], "t", "orders") == (lease("s-0", "4951", 3),)


def test_only_the_leases_of_the_stream_are_taken_of_an_app_with_several() -> None:
    keys = ["123456789012:orders:1605034220:s-0", "123456789012:users:1605034220:s-1"]
    found = leases_of([item(key, "TRIM_HORIZON") for key in keys], "t", "orders")
    assert [each.shard_id for each in found] == ["s-0"]


def test_another_table_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="'users' is not a lease table of the Kinesis"):
        leases_of([{"id": {"S": "1"}}], "users", "orders")


def test_each_kind_of_checkpoint_becomes_its_place() -> None:
    start = AtTime(NOW - timedelta(hours=2))
    header = Header("billing", "orders", CREATED, start, settled=True)
    leases = [
        lease("s-0", "SHARD_END"),
        lease("s-1", "TRIM_HORIZON"),
        lease("s-2", "4951", 3),
        lease("s-3", "LATEST"),
    ]
    rows = rows_of(leases, [], header, STREAM)
    places = [SHARD_END, TRIM_HORIZON, After(SequenceNumber("4951"), 3), start]
    assert [row.checkpoint for row in rows] == places
    assert [row.completed for row in rows] == [True, False, False, False]
    assert without_place(leases) == ("s-3",)


def test_an_ancestor_without_a_row_is_finished_and_a_child_without_one_is_left_to_workers() -> None:
    shards = [
        Shard("root"),
        Shard("left", parents=("root",)),
        Shard("right", parents=("root",)),
        Shard("child", parents=("left",)),
    ]
    leases = [lease("left", "4951"), lease("right", "4952")]
    rows = {row.shard_id: row for row in rows_of(leases, shards, HEADER, STREAM)}
    assert rows.keys() == {"root", "left", "right"}
    assert rows["root"].completed
    assert rows["left"].parents == ("root",)


def test_a_worker_asks_whether_the_record_at_an_old_checkpoint_is_still_kept() -> None:
    (row,) = rows_of([lease("s-0", "4951")], [], HEADER, STREAM)
    assert row.as_of is not None
    found = judge(row.checkpoint, row.as_of, now=NOW, retention=timedelta(days=1))
    assert found is Verdict.ASK
