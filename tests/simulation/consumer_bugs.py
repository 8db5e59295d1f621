"""Bugs in the place of the right pipeline, runner and keeper: see the case each one names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardline.consumer.delivery import Delivery
from shardline.consumer.lanes import Watermark
from shardline.consumer.messages import Acknowledged, PipelineStalled
from shardline.consumer.pipeline import Pipeline
from shardline.consumer.read_ahead import ReadAhead
from shardline.consumer.runner import Runner
from shardline.consumer.worker import Worker
from shardline.core.fences import Fence
from shardline.core.leasing.holdings import Holdings
from shardline.core.leasing.state import LeaseState
from shardline.errors import ServiceError
from shardline.leases.coordinator import Coordinator
from shardline.leases.heartbeats import Heartbeats
from shardline.services.steps import Pause
from tests.simulation.bug import BUGS, bug

_init: Any = Coordinator.__init__


# --- pipelines, runner and keeper -----------------------------------------------------------


@bug("K-47", "acknowledged when it is read, not when it is processed", ReadAhead, "put")
def _(self: Any, chunk: Any) -> None:
    _put(self, chunk)
    self.acknowledge(chunk)


_put = ReadAhead.put


def _acknowledging(self: Any, *args: Any, **named: Any) -> None:
    _pipeline_init(self, *args, **named)
    self._ahead.acknowledge = lambda chunk: self._send(
        Acknowledged(self.key, chunk.after, chunk.as_of, chunk.lag_ms)
    )


_pipeline_init: Any = Pipeline.__init__
BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (Pipeline, "__init__", _acknowledging)))


@bug("X-14", "every try has the same fence", Delivery, "fence")
def _(self: Any) -> Fence:
    return Fence(self._epoch, 1)


@bug("X-18", "a listing is made by the thread that renews", Heartbeats, "round")
def _(self: Any) -> Any:
    for call in (self._member.listings.describe, self._member.listings.list_shards):
        try:
            yield call
        except ServiceError:
            yield Pause(1.0)
    yield from _beat(self)


_beat = Heartbeats.round


def _with_listings(self: Any, *args: Any, **named: Any) -> None:
    _init(self, *args, **named)
    self._member.listings = args[1]


BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (Coordinator, "__init__", _with_listings)))


@bug("D4", "what is started while there is no runner is forgotten", Worker, "_start_runner")
def _(self: Any) -> Any:
    if self._restarts:
        yield Pause(1.0)
    self._runner = yield self._make_runner
    self._runner_started_at = self._heard_at = self._clock()
    self._valid_until = float("-inf")


@bug("D4", "a page is dropped when the question about a gap before it fails", Pipeline, "_read")
def _(self: Any, demand: int) -> Any:
    self._unjudged = None
    return (yield from _read(self, demand))


_read = Pipeline._read


@bug("D4", "read-ahead records overtake a delivery that was given up", Pipeline, "_deliver_part")
def _(self: Any, part: Any) -> Any:
    finish_by = self._finish_by
    yield from _deliver_part(self, part)
    if self._finish_by == float("-inf"):
        self._finish_by = finish_by


_deliver_part = Pipeline._deliver_part


@bug("D4", "an acknowledgement is believed whatever its epoch", LeaseState, "at_work")
def _(self: Any, shard_id: str, epoch: int, now: float) -> bool:
    return shard_id in self.holdings.by_shard


def _any_epoch(self: Any, shard_id: str, epoch: int) -> Any:
    return self.by_shard.get(shard_id)


BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (Holdings, "get", _any_epoch)))


@bug("X-34", "the memory of processed records is never free again", ReadAhead, "release")
def _(self: Any, size_bytes: int) -> None:
    return


BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (ReadAhead, "clear", lambda _: None)))


@bug("K-35", "a pipeline that was stopped goes on", Runner, "_stop")
def _(self: Any, key: Any) -> None:
    self._works.pop((key.stream_name, key.shard_id), None)


@bug("K-52", "one lane's end is taken for the end of the chunk", Watermark, "acknowledged")
def _(self: Any, ticket: int) -> Any:
    if ticket < self._first:
        return None
    reached = None
    while self._open and self._first <= ticket:
        reached = self._open.popleft().chunk
        self._first += 1
    return reached


@bug("X-30", "a process that still runs a call that was given up stays", Runner, "_start")
def _(self: Any, start: Any) -> None:
    place = (start.key.stream_name, start.key.shard_id)
    if place in self._abandoned and self._abandoned[place].oldest_call() is not None:
        self._send(PipelineStalled(start.key, self._job.stall_seconds))
    else:
        _start(self, start)


_start = Runner._start
