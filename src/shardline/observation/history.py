"""What one observation cannot show: when shards opened and closed, past owners, past events."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shardline.observation.events import events_between
from shardline.observation.snapshot import Event, EventKind, Read, Snapshot, Tenure
from shardline.observation.views import gap_views, lag_within, shard_views, worker_views

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.promise import Verdict
    from shardline.observation.observation import Observation
    from shardline.observation.snapshot import DeadLetter, ShardView

EVENTS_KEPT: Final = 200
TENURES_KEPT: Final = 20
READS_KEPT: Final = 20
_ONCE: Final = {EventKind.SPLIT, EventKind.MERGED, EventKind.CONTINUED, EventKind.CLOSED}
"""What happens to a shard at most once."""


class History:
    """Makes a snapshot of each observation, in order. Not thread-safe."""

    def __init__(self, stream: str, app: str | None = None) -> None:
        self._stream = stream
        self._app = app
        self._opened: dict[str, float] = {}
        self._closed: dict[str, float] = {}
        self._tenures: dict[str, tuple[Tenure, ...]] = {}
        self._reads: dict[str, tuple[Read, ...]] = {}
        self._beats: dict[str, tuple[int, float]] = {}
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._last: Snapshot | None = None

    def note(self, at: float, text: str, kind: EventKind = EventKind.NOTE) -> None:
        """Add an event that no observation shows, such as a worker that a test has killed."""
        self._events.append(Event(at, kind, text))

    def add(
        self,
        observation: Observation,
        *,
        verdict: Verdict | None = None,
        dead_letters: Iterable[DeadLetter] = (),
    ) -> Snapshot:
        """Add an observation, and return the snapshot to show."""
        silent = self._silent_seconds(observation)
        shards = tuple(self._with_past(view, observation.at) for view in shard_views(observation))
        snapshot = Snapshot(
            at=observation.at,
            stream=self._stream,
            app=self._app,
            shards=shards,
            workers=worker_views(observation, shards, silent),
            gaps=gap_views(observation),
            dead_letters=tuple(dead_letters),
            verdict=verdict,
        )
        if self._last is not None:
            self._events.extend(self._new_events(self._last, snapshot))
        self._last = snapshot
        self._forget(shards)
        return replace(snapshot, events=tuple(self._events))

    def _new_events(self, before: Snapshot, after: Snapshot) -> list[Event]:
        """Return what happened since; a stale listing in between shows a reshard once more."""
        past = {(event.kind, event.shard_ids) for event in self._events if event.kind in _ONCE}
        found = events_between(before, after)
        return [event for event in found if (event.kind, event.shard_ids) not in past]

    def _with_past(self, view: ShardView, at: float) -> ShardView:
        first_observation = self._last is None
        opened, closed = view.opened_at, view.closed_at
        if opened is None and view.id not in self._opened and not first_observation:
            self._opened[view.id] = at
        if view.closed and closed is None and view.id not in self._closed and not first_observation:
            self._closed[view.id] = at
        tenures = self._tenures.get(view.id, ())
        if self._app is not None and (not tenures or tenures[-1].owner != view.owner):
            tenures = (*tenures, Tenure(view.owner, view.epoch or 0, at))[-TENURES_KEPT:]
            self._tenures[view.id] = tenures
        opened = self._opened.get(view.id) if opened is None else opened
        extended = replace(
            view,
            lag_seconds=lag_within(view.lag_seconds, opened, at),
            opened_at=opened,
            closed_at=self._closed.get(view.id) if closed is None else closed,
            tenures=tenures,
        )
        reads = self._reads[view.id] = self._reads_until(extended, at)
        return replace(extended, reads=reads)

    def _reads_until(self, view: ShardView, at: float) -> tuple[Read, ...]:
        """Return the reads of a shard, extended by what was read since the last observation."""
        reads = self._reads.get(view.id, ())
        upto = at if view.state == "drained" else at - (view.lag_seconds or 0)
        if view.closed_at is not None:
            upto = min(upto, view.closed_at)
        is_known = view.state == "drained" or view.lag_seconds is not None
        if not is_known or (reads and upto <= reads[-1].upto):
            return reads
        owners = [tenure.owner for tenure in view.tenures if tenure.owner is not None]
        reader = None if self._last is None or not owners else owners[-1]
        if reads and reads[-1].owner == reader:
            reads = reads[:-1]
        return (*reads, Read(reader, upto))[-READS_KEPT:]

    def _silent_seconds(self, observation: Observation) -> dict[str, float]:
        beats = {beat.worker: beat.count for beat in observation.heartbeats}
        for worker, count in beats.items():
            if self._beats.get(worker, (None, 0))[0] != count:
                self._beats[worker] = (count, observation.at)
        self._beats = {worker: self._beats[worker] for worker in beats}
        return {worker: observation.at - changed for worker, (_, changed) in self._beats.items()}

    def _forget(self, shards: tuple[ShardView, ...]) -> None:
        ids = {shard.id for shard in shards}
        for memory in (self._opened, self._closed, self._tenures, self._reads):
            for shard_id in memory.keys() - ids:
                del memory[shard_id]
