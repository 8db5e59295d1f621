"""When a shard is read, how far ahead, and whether others wait for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shardline.core.positions import TRIM_HORIZON
from shardline.services.pace import UNPACED, Quota
from shardline.streams.gaps import GapPolicy
from shardline.streams.inline_executor import InlineExecutor
from shardline.streams.ledger import Ledger, Place
from shardline.streams.merger import StreamMerger
from shardline.streams.shard_buffer import ReadSettings, ShardBuffer
from tests.twins.kinesis import KinesisTwin

ONE_CALL_A_SECOND = Quota(calls_per_second=1, bytes_per_second=float("inf"))


def no_pause(seconds: float) -> None:
    raise AssertionError(f"a read was sent {seconds} s before the quota allows it")


def buffer_of(twin: KinesisTwin, **settings: Any) -> ShardBuffer:
    [shard] = twin.list_shards()
    return ShardBuffer(
        twin,
        shard.id,
        Place(0, TRIM_HORIZON),
        timedelta(days=1),
        ReadSettings(**settings),
        lambda: twin.clock.now_ms() / 1000,
        no_pause,
    )


def test_at_its_tip_a_shard_holds_up_nobody_until_its_quota_allows_the_next_read() -> None:
    twin = KinesisTwin()
    twin.put("k", b"a")
    buffer = buffer_of(twin, quota=ONE_CALL_A_SECOND, poll_seconds=0.25)
    now = twin.clock.now_ms() / 1000
    assert buffer.backlog(now).holds
    buffer.add(buffer.fetch(), now)
    assert len(buffer.take(1)) == 1
    assert not buffer.backlog(now).holds
    assert not buffer.wants_page(now + 0.5)
    assert not buffer.backlog(now + 0.5).holds
    assert buffer.wants_page(now + 1.1)
    assert buffer.backlog(now + 1.1).holds


@pytest.mark.parametrize(("budget", "read"), [(0, 1), (10_000, 4), (1, 1)])
def test_shards_are_read_ahead_within_one_budget(budget: int, read: int) -> None:
    twin = KinesisTwin()
    for number in range(8):
        twin.put("k", b"x" * 1000 + bytes([number]))
    settings = ReadSettings(page_size=2, read_ahead_bytes=budget, quota=UNPACED)
    pages = 0

    class Counting(InlineExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            nonlocal pages
            pages += 1
            return super().submit(fn, *args, **kwargs)

    merger = StreamMerger(
        twin,
        Ledger.starting_at(TRIM_HORIZON, twin.list_shards()),
        GapPolicy("fail", "orders", []),
        retention_seconds=86_400,
        settings=settings,
        list_seconds=60,
        executor=Counting(),
        clock=lambda: twin.clock.now_ms() / 1000,
        pause=no_pause,
    )
    merger.open()
    for _ in range(4):
        merger._read_due()
    assert pages == read
