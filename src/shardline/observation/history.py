"""Remembers what one look cannot show: when shards came and went, who held them, what happened."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shardline.observation.changes import changes
from shardline.observation.observation import gaps_of, lag_within, views_of, workers_of
from shardline.observation.snapshot import Event, EventKind, Read, Snapshot, Tenure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.promise import Verdict
    from shardline.observation.observation import Sighting
    from shardline.observation.snapshot import DeadLetter, ShardView

EVENTS_KEPT: Final = 200
TENURES_KEPT: Final = 20
READS_KEPT: Final = 20


class History:
    """Turns sightings, one after the other, into snapshots. Not for several threads at once."""

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
        """Add an event that no sighting shows, such as a worker that was killed on purpose."""
        self._events.append(Event(at, kind, text))

    def observe(
        self,
        sighting: Sighting,
        *,
        verdict: Verdict | None = None,
        dead_letters: Iterable[DeadLetter] = (),
    ) -> Snapshot:
        """Take in what was seen, and return what to show."""
        silent = self._silent_seconds(sighting)
        shards = tuple(self._remember(view, sighting.at) for view in views_of(sighting))
        snapshot = Snapshot(
            at=sighting.at,
            stream=self._stream,
            app=self._app,
            shards=shards,
            workers=workers_of(sighting, shards, silent),
            gaps=gaps_of(sighting),
            dead_letters=tuple(dead_letters),
            verdict=verdict,
        )
        if self._last is not None:
            self._events.extend(changes(self._last, snapshot))
        self._last = snapshot
        self._forget(shards)
        return replace(snapshot, events=tuple(self._events))

    def _remember(self, view: ShardView, at: float) -> ShardView:
        first_look = self._last is None
        opened, closed = view.opened_at, view.closed_at
        if opened is None and view.id not in self._opened and not first_look:
            self._opened[view.id] = at
        if view.closed and closed is None and view.id not in self._closed and not first_look:
            self._closed[view.id] = at
        tenures = self._tenures.get(view.id, ())
        if self._app is not None and (not tenures or tenures[-1].owner != view.owner):
            tenures = (*tenures, Tenure(view.owner, view.epoch or 0, at))[-TENURES_KEPT:]
            self._tenures[view.id] = tenures
        opened = self._opened.get(view.id) if opened is None else opened
        remembered = replace(
            view,
            lag_seconds=lag_within(view.lag_seconds, opened, at),
            opened_at=opened,
            closed_at=self._closed.get(view.id) if closed is None else closed,
            tenures=tenures,
        )
        reads = self._reads[view.id] = self._read_on(remembered, at)
        return replace(remembered, reads=reads)

    def _read_on(self, view: ShardView, at: float) -> tuple[Read, ...]:
        """Add what was read since the last look to what its owner, old or new, had read before."""
        reads = self._reads.get(view.id, ())
        upto = at if view.state == "drained" else at - (view.lag_seconds or 0)
        if view.closed_at is not None:
            upto = min(upto, view.closed_at)
        known = view.state == "drained" or view.lag_seconds is not None
        if not known or (reads and upto <= reads[-1].upto):
            return reads
        owners = [tenure.owner for tenure in view.tenures if tenure.owner is not None]
        reader = None if self._last is None or not owners else owners[-1]
        if reads and reads[-1].owner == reader:
            reads = reads[:-1]
        return (*reads, Read(reader, upto))[-READS_KEPT:]

    def _silent_seconds(self, sighting: Sighting) -> dict[str, float]:
        beats = {beat.worker: beat.count for beat in sighting.heartbeats}
        for worker, count in beats.items():
            if self._beats.get(worker, (None, 0))[0] != count:
                self._beats[worker] = (count, sighting.at)
        self._beats = {worker: self._beats[worker] for worker in beats}
        return {worker: sighting.at - moved for worker, (_, moved) in self._beats.items()}

    def _forget(self, shards: tuple[ShardView, ...]) -> None:
        ids = {shard.id for shard in shards}
        for memory in (self._opened, self._closed, self._tenures, self._reads):
            for shard_id in memory.keys() - ids:
                del memory[shard_id]
