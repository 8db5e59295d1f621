"""A writer: what it accepts, and what it does when a call fails for good."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from shardline.core.writes.shard_map import ShardMap
from shardline.errors import ConfigurationError, ServiceError, ShardlineError
from shardline.services.put.body import PutEntryResult
from shardline.services.put.writer import Writer, put
from shardline.services.records import KinesisRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.core.shards import Shard
    from shardline.core.writes.order import Lane
    from shardline.services.put.stream import PutStream


class Orders:
    """A stream in memory."""

    address = "kinesis://orders"

    def __init__(self, *, fails: bool = False) -> None:
        self.shards = ShardMap()
        self.fails = fails
        self.data: list[bytes] = []
        self.may_put = threading.Event()
        self.may_put.set()
        self.closed = False

    def list_shards(self) -> tuple[Shard, ...]:
        return ()

    def put(self, call: Sequence[Lane]) -> list[PutEntryResult]:
        assert self.may_put.wait(30)
        if self.fails:
            raise ServiceError("refused")
        self.data += [lane.waiting[0].data for lane in call]
        return [PutEntryResult("1", "s") for _ in call]

    def close(self) -> None:
        self.closed = True


def writer_to(stream: Orders, **options: Any) -> Writer:
    return Writer(cast("PutStream", stream), **options)


@pytest.mark.req("S-11")
def test_leaving_the_block_waits_until_everything_is_written() -> None:
    stream = Orders()
    with writer_to(stream) as writer:
        for number in range(100):
            writer.put("a", str(number))
    assert stream.data == [str(number).encode() for number in range(100)]
    assert stream.closed


@pytest.mark.req("S-03")
def test_a_writer_that_failed_says_so_at_every_later_call() -> None:
    stream = Orders(fails=True)
    writer = writer_to(stream)
    writer.put("a", b"1")
    for _ in range(2):
        with pytest.raises(ServiceError, match="refused"):
            writer.flush()
    with pytest.raises(ServiceError, match="refused"):
        writer.put("b", b"2")
    writer.close()


def test_after_an_exception_in_the_block_nothing_more_is_sent() -> None:
    stream = Orders()
    stream.may_put.clear()

    def write() -> None:
        with writer_to(stream, connections=1) as writer:
            writer.put("a", b"1")
            writer.put("a", b"2")
            threading.Timer(0.05, stream.may_put.set).start()
            raise KeyError("a mistake in the block")

    with pytest.raises(KeyError):
        write()
    assert stream.data in ([], [b"1"])


def test_a_closed_writer_takes_nothing() -> None:
    writer = writer_to(Orders())
    writer.close()
    with pytest.raises(ShardlineError, match="closed"):
        writer.put("a", b"")


@pytest.mark.req("S-11")
def test_records_may_be_pairs_triples_or_what_was_read() -> None:
    stream = Orders()
    with writer_to(stream) as writer:
        writer.put("a", "ж")
        writer.put("a", b"2", "17")
    assert stream.data == ["ж".encode(), b"2"]
    read = KinesisRecord("shard-0", "1", 0, "a", b"3")
    with pytest.raises(ConfigurationError, match="only Kinesis"):
        put("dynamodb://users", [("a", b"1"), read])


def test_less_than_one_connection() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        writer_to(Orders(), connections=0)
