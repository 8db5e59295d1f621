"""Snapshots of a live stream, with the service present and absent."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shardline.core.leasing.rows import LeaseRow, halted
from shardline.core.promise import Verdict
from shardline.errors import ConfigurationError, StreamNotFound
from shardline.local import Service
from shardline.observation.watch import LiveWatch
from shardline.services.access import Access
from shardline.services.connection import connect
from tests.twins.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as running:
        running.create_stream("orders", 1)
        yield running


@pytest.fixture
def watch(service: Service) -> Iterator[LiveWatch]:
    stream = connect("kinesis://orders", Access(endpoint_url=service.endpoint_url))
    yield LiveWatch("kinesis://orders", stream)
    stream.close()


def test_a_stream_that_is_missing_from_the_start_is_an_error(service: Service) -> None:
    stream = connect("kinesis://nothing", Access(endpoint_url=service.endpoint_url))
    with pytest.raises(StreamNotFound):
        LiveWatch("kinesis://nothing", stream).snapshot()
    stream.close()


def test_one_that_vanishes_later_leaves_the_last_snapshot_and_a_notice(
    service: Service, watch: LiveWatch
) -> None:
    before = watch.snapshot()
    service.client().delete_stream(StreamName="orders")
    after = watch.snapshot()
    assert after.shards == before.shards
    assert "not found" in after.notice


def test_notes_and_a_verdict_are_shown(watch: LiveWatch) -> None:
    watch.snapshot()
    watch.note("kill -9 of ada")
    watch.set_verdict(Verdict(1, 1, 0, 0, 0, 0, 0, {}, ()))
    snapshot = watch.snapshot()
    assert [event.text for event in snapshot.events] == ["kill -9 of ada"]
    assert snapshot.verdict is not None
    assert snapshot.verdict.kept


def test_without_leases_there_is_nothing_to_release(watch: LiveWatch) -> None:
    with pytest.raises(ConfigurationError, match="--lease-table"):
        watch.release("shardId-000000000000")


def test_a_halted_shard_is_released_so_that_a_worker_may_take_it(service: Service) -> None:
    stream = connect("kinesis://orders", Access(endpoint_url=service.endpoint_url))
    table = MemoryLeaseTable()
    row = LeaseRow("billing", "orders", "s", datetime.now(UTC))
    table.swap_row(halted(row, "its consumer raised"), None)
    watch = LiveWatch("kinesis://orders", stream, table, "billing")
    assert watch.release("s") == "released s, which was halted"
    assert table.read_rows("billing", "orders", ["s"])["s"].halted == ""
    with pytest.raises(ConfigurationError, match="nobody holds s"):
        watch.release("s")
    stream.close()


def test_snapshots_from_several_threads_have_each_event_once(
    service: Service, watch: LiveWatch
) -> None:
    watch.snapshot()
    service.client().split_shard(
        StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127)
    )
    threads = [threading.Thread(target=watch.snapshot) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.text for event in watch.snapshot().events] == ["…000 → …001 + …002"]
