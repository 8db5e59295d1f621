from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import HashRange, SequenceNumber
from shardline.errors import (
    InvalidPosition,
    IteratorExpired,
    ServiceUnreachable,
    ShardlineError,
    ShardNotFound,
    StreamNotFound,
    Throttled,
)
from tests.twins.kinesis import EPOCH, KinesisTwin

if TYPE_CHECKING:
    from shardline.local.faults import FaultKind
    from shardline.services.port import StreamService

ROOT = "shardId-000000000000"


def data(twin: KinesisTwin, shard_id: str, position: Position) -> list[bytes]:
    page = twin.read(twin.open(shard_id, position), 100)
    values: list[bytes] = page.records["data"].to_pylist()
    return values


def test_the_twin_is_a_stream_service() -> None:
    twin: StreamService = KinesisTwin()
    description = twin.describe()
    assert (description.name, description.active) == ("twin", True)
    assert (description.created_at, description.retention_seconds) == (EPOCH, 86_400)


def test_every_position() -> None:
    twin = KinesisTwin()
    written = []
    for value in (b"1", b"2", b"3"):
        written.append(twin.put("k", value))
        twin.clock.advance(10)
    assert data(twin, ROOT, TRIM_HORIZON) == [b"1", b"2", b"3"]
    assert data(twin, ROOT, After(written[0].sequence)) == [b"2", b"3"]
    assert data(twin, ROOT, After(written[0].sequence, 4)) == [b"1", b"2", b"3"]
    assert data(twin, ROOT, AtTime(EPOCH + timedelta(seconds=5))) == [b"2", b"3"]
    assert data(twin, ROOT, AtTime(EPOCH + timedelta(microseconds=1))) == [b"2", b"3"]
    opened = twin.open(ROOT, LATEST)
    twin.put("k", b"4")
    page = twin.read(opened, 10)
    assert page.records["data"].to_pylist() == [b"4"]
    assert (page.behind_ms, page.service_time) == (0, EPOCH + timedelta(seconds=30))
    with pytest.raises(InvalidPosition):
        twin.open(ROOT, SHARD_END)


def test_split_and_merge_show_in_the_listing_and_at_the_end() -> None:
    twin = KinesisTwin()
    twin.put("k", b"1")
    low, high = twin.split(ROOT)
    child = twin.merge(low, high)
    root, first, second, merged = twin.list_shards()
    assert [root.closed, first.closed, second.closed, merged.closed] == [True, True, True, False]
    assert (first.parents, merged.parents) == ((ROOT,), (low, high))
    assert merged.id == child
    assert merged.hash_range == root.hash_range == HashRange(0, 2**128 - 1)
    page = twin.read(twin.open(ROOT, TRIM_HORIZON), 10)
    assert page.next_iterator is None
    assert [each.id for each in page.children] == [low, high]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("throttle", Throttled),
        ("internal-failure", ServiceUnreachable),
        ("cut", ServiceUnreachable),
        ("hang", ServiceUnreachable),
        ("lose-reply", ServiceUnreachable),
    ],
)
def test_faults_become_errors_of_ours(fault: FaultKind, error: type[ShardlineError]) -> None:
    twin = KinesisTwin()
    opened = twin.open(ROOT, TRIM_HORIZON)
    twin.account.faults.add(fault, "GetRecords", shard_id=ROOT)
    with pytest.raises(error):
        twin.read(opened, 10)
    assert twin.read(opened, 10).records.num_rows == 0


def test_refusals_become_errors_of_ours() -> None:
    twin = KinesisTwin()
    with pytest.raises(ShardNotFound):
        twin.open("shardId-000000000009", TRIM_HORIZON)
    with pytest.raises(InvalidPosition):
        twin.open(ROOT, After(SequenceNumber("5")))
    with pytest.raises(InvalidPosition):
        twin.open(ROOT, AtTime(EPOCH + timedelta(seconds=1)))
    with pytest.raises(InvalidPosition):
        twin.read("nonsense", 10)
    opened = twin.open(ROOT, LATEST)
    twin.clock.advance(301)
    with pytest.raises(IteratorExpired):
        twin.read(opened, 10)
    assert twin.has_shard(ROOT)
    assert not twin.has_shard("shardId-000000000009")
    stream = twin.account.find("twin", twin.clock.now_ms())
    twin.account.delete(stream, twin.clock.now_ms())
    for call in (twin.describe, twin.list_shards, lambda: twin.open(ROOT, LATEST)):
        with pytest.raises(StreamNotFound):
            call()


def test_a_shard_that_expired_is_gone() -> None:
    twin = KinesisTwin()
    low, high = twin.split(ROOT)
    twin.clock.advance(24 * 3600)
    assert [shard.id for shard in twin.list_shards()] == [low, high]
    assert not twin.has_shard(ROOT)
    with pytest.raises(ShardNotFound):
        twin.open(ROOT, TRIM_HORIZON)


def test_a_record_is_gone_the_moment_its_retention_ends() -> None:
    twin = KinesisTwin()
    for value in (b"1", b"2", b"3"):
        twin.put("k", value)
        twin.clock.advance(10)
    twin.clock.advance(24 * 3600 - 31)
    assert data(twin, ROOT, TRIM_HORIZON) == [b"1", b"2", b"3"]
    twin.clock.advance(1)
    assert data(twin, ROOT, TRIM_HORIZON) == [b"2", b"3"]
    twin.clock.advance(10)
    assert data(twin, ROOT, TRIM_HORIZON) == [b"3"]
