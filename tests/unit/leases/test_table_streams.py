"""Streams of a table whose streaming was switched off and on: read one after the other."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.leasing import events as e
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import StreamNotFound
from tests.unit.leases.stage import BIRTH, SPACE, Listing, Stage

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.leases.coordinator import Coordinator

pytestmark = pytest.mark.case("X-06")
SOON = 30.0
"""Long enough to ask for the next stream."""


class TableStage(Stage):
    """Workers on a table with streams."""

    def __init__(self) -> None:
        super().__init__(shards=1)
        self.streams: list[Listing] = []
        self.opened = self.open_from
        self.switch_on("old")

    def switch_on(self, shard_id: str) -> None:
        """Switch streaming on: a new stream with one shard."""
        stream = Listing((Shard(shard_id),))
        stream.created_at = BIRTH + timedelta(days=len(self.streams))
        self.streams.append(stream)

    def switch_off(self) -> None:
        """Switch streaming off: all shards of the newest stream are closed."""
        stream = self.streams[-1]
        stream.shards = tuple(replace(s, last=SequenceNumber("900")) for s in stream.shards)

    def expire(self, stream: Listing) -> None:
        self.streams.remove(stream)
        stream.failing = StreamNotFound("it is gone")

    def join(self, name: str) -> Coordinator:
        """Start a worker, which knows only the newest stream."""
        self.listing = self.streams[-1]
        return self.worker(name, open_from=lambda created_from: self.opened(created_from))

    def open_from(self, created_from: datetime) -> Any:
        for stream in self.streams:
            if stream.created_at >= created_from:
                return stream
        nothing = Listing(())
        nothing.failing = StreamNotFound("no such stream")
        return nothing

    def complete(self, worker: Coordinator, shard_id: str) -> None:
        worker.complete(shard_id, worker.held()[shard_id].epoch)


@pytest.fixture
def stage() -> TableStage:
    return TableStage()


def test_the_next_stream_begins_when_the_one_before_is_drained(
    stage: TableStage, caplog: pytest.LogCaptureFixture
) -> None:
    worker = stage.join("a")
    stage.let_pass(2)
    stage.switch_off()
    stage.switch_on("new")
    stage.let_pass(SOON)
    assert worker.held().keys() == {"old"}, "it may have records that were not processed"
    assert worker.held()["old"].stream_created_at == stage.streams[0].created_at
    stage.complete(worker, "old")
    stage.let_pass(SOON)
    assert worker.held().keys() == {"new"}
    assert worker.held()["new"].stream_created_at == stage.streams[1].created_at
    assert "was switched off and on" in caplog.text


def test_a_stream_that_is_off_is_waited_for(stage: TableStage) -> None:
    worker = stage.join("a")
    stage.let_pass(2)
    stage.switch_off()
    stage.complete(worker, "old")
    stage.let_pass(SOON)
    assert not worker.held()
    stage.switch_on("new")
    stage.let_pass(SOON)
    assert worker.held().keys() == {"new"}


def test_a_worker_that_starts_later_drains_the_earlier_streams_first(stage: TableStage) -> None:
    first = stage.join("a")
    stage.let_pass(2)
    stage.lose(first)
    for shard_id in ("new", "newest"):
        stage.switch_off()
        stage.switch_on(shard_id)
    stage.let_pass(60)
    worker = stage.join("b")
    for shard_id in ("old", "new", "newest"):
        stage.let_pass(SOON)
        assert worker.held().keys() == {shard_id}
        stage.complete(worker, shard_id)


def test_without_a_header_the_rows_tell_which_stream_comes_first(stage: TableStage) -> None:
    first = stage.join("a")
    stage.let_pass(2)
    stage.lose(first)
    stage.switch_off()
    stage.switch_on("new")
    del stage.table._headers[SPACE]  # by hand
    worker = stage.join("b")
    stage.let_pass(60)
    assert worker.held().keys() == {"old"}


def test_all_workers_go_on_together(stage: TableStage) -> None:
    workers = [stage.join(name) for name in "abc"]
    stage.let_pass(30)
    stage.switch_off()
    stage.switch_on("new")
    for worker in workers:
        if worker.held():
            stage.complete(worker, "old")
    stage.let_pass(SOON)
    stage.streams[-1].split("new", "c1", "c2", "c3")
    for worker in workers:
        if worker.held():
            stage.complete(worker, "new")
    stage.let_pass(SOON)
    assert stage.counts() == [1, 1, 1]


def test_a_shard_that_only_the_last_listing_shows_is_not_left_behind(stage: TableStage) -> None:
    worker = stage.join("a")
    stage.let_pass(2)
    old = stage.streams[0]
    stage.switch_off()
    stage.switch_on("new")
    child = Shard("child", ("old",), None, SequenceNumber("901"), SequenceNumber("902"))

    def open_from(created_from: datetime) -> Any:
        if child not in old.shards:  # listings before this one were stale
            old.shards = (*old.shards, child)
        return TableStage.open_from(stage, created_from)

    stage.opened = open_from
    stage.complete(worker, "old")
    stage.let_pass(SOON)
    assert worker.held().keys() == {"child"}
    stage.complete(worker, "child")
    stage.let_pass(SOON)
    assert worker.held().keys() == {"new"}


def test_a_listing_of_the_stream_before_is_none_of_the_next_one(stage: TableStage) -> None:
    """Another worker goes on while this one lists the old stream for the last time."""
    worker = stage.join("a")
    stage.let_pass(2)
    stage.switch_off()
    old, list_shards = stage.streams[0], stage.streams[0].list_shards
    stage.let_pass(SOON)
    stage.switch_on("new")
    new = stage.streams[1]
    stage.complete(worker, "old")

    def open_from(created_from: datetime) -> Any:
        old.list_shards = go_on_meanwhile  # type: ignore[method-assign]
        return TableStage.open_from(stage, created_from)

    def go_on_meanwhile() -> Any:
        header = stage.table.read_header(*SPACE)
        if header is not None and header.stream_created_at == old.created_at:
            later = replace(header, stream_created_at=new.created_at, moves=header.moves + 1)
            stage.table.create_header(later, header)
            worker._member.handle(e.HeaderRead(later, None))
        return list_shards()

    stage.opened = open_from
    stage.let_pass(SOON)
    rows = stage.table.scan_rows(*SPACE, None, 10).rows
    assert {row.shard_id for row in rows if row.stream_created_at == new.created_at} == {"new"}


@pytest.mark.parametrize("running", [True, False])
def test_what_is_lost_with_a_stream_that_is_gone_is_said(
    stage: TableStage, caplog: pytest.LogCaptureFixture, running: bool
) -> None:
    first = stage.join("a")
    stage.let_pass(2)
    stage.switch_off()
    stage.switch_on("new")
    if not running:
        stage.lose(first)
    stage.expire(stage.streams[0])
    stage.let_pass(60)
    worker = first if running else stage.join("b")
    stage.let_pass(SOON)
    assert worker.held().keys() == {"new"}
    assert "what was not processed of it is lost" in caplog.text
