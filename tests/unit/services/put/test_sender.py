"""A sender as steps: it lists, puts, waits and gives up as the order says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from shardline.core.shards import HASH_SPACE_END, HashRange, Shard
from shardline.core.writes.entries import make_entry
from shardline.core.writes.order import WriteOrder
from shardline.core.writes.shard_map import ShardMap
from shardline.errors import ConfigurationError, Throttled
from shardline.services.put.body import PutEntryResult
from shardline.services.put.sender import send_steps
from shardline.services.steps import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.core.writes.order import Lane


@dataclass
class Orders:
    """A stream that accepts all, or refuses all, or may not be listed; and a clock."""

    refuses: bool = False
    may_list: bool = True
    address: str = "kinesis://orders"
    now: float = 0.0
    calls: list[list[str]] = field(default_factory=list)

    def list_shards(self) -> tuple[Shard, ...]:
        if not self.may_list:
            raise ConfigurationError("AccessDeniedException")
        return (Shard("shard-0", hash_range=HashRange(0, HASH_SPACE_END)),)

    def put(self, call: Sequence[Lane]) -> list[PutEntryResult]:
        self.calls.append([lane.waiting[0].data.decode() for lane in call])
        if self.refuses:
            return [PutEntryResult(error_code="InternalFailure") for _ in call]
        return [PutEntryResult(str(len(self.calls)), "shard-0") for _ in call]

    def sleep(self, seconds: float) -> None:
        self.now += seconds + 0.001


def send(stream: Orders, *records: tuple[str, str]) -> WriteOrder:
    order = WriteOrder(ShardMap(), give_up_seconds=30)
    for key, data in records:
        order.add(make_entry(key, data.encode()))
    steps = send_steps(order, stream, lambda: stream.now, ended=lambda: True)
    run(steps, sleep=stream.sleep)
    return order


def test_it_sends_until_everything_is_accepted() -> None:
    stream = Orders()
    order = send(stream, ("a", "a1"), ("a", "a2"), ("b", "b1"))
    assert stream.calls == [["a1", "b1"], ["a2"]]
    assert order.is_empty
    assert order.written.last == {"shard-0": "2"}


@pytest.mark.req("S-05")
def test_who_may_not_list_may_still_write() -> None:
    stream = Orders(may_list=False)
    assert send(stream, ("a", "a1")).is_empty


@pytest.mark.req("S-03")
@pytest.mark.parametrize("may_list", [True, False])
def test_it_gives_up_in_one_line_that_says_what_to_do(may_list: bool) -> None:
    stream = Orders(refuses=True, may_list=may_list)
    with pytest.raises(Throttled) as caught:
        send(stream, ("a", "a1"), ("a", "a2"))
    message = str(caught.value)
    where = "shard shard-0" if may_list else "the stream"
    assert message.startswith(f"kinesis://orders: {where} has refused a record of key 'a' for 3")
    assert "so 2 records are not written: give the stream more shards" in message
    assert 30 < stream.now < 40
    assert {tuple(call) for call in stream.calls} == {("a1",)}
