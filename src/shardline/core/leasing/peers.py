"""Who lives, as one worker sees it: counters watched on its own clock, never times compared."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from shardline.core.leasing.rows import worker_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.leasing.rows import Heartbeat


@dataclass(slots=True)
class _Seen:
    beat: Heartbeat | None
    """As last seen; None while there is none."""
    since: float
    """When, on my clock, I first saw it like this."""
    dead: bool = False


class Peers:
    """The other workers. A counter that stood still for `lease_seconds` has a dead owner."""

    def __init__(self, me: str, lease_seconds: float) -> None:
        self._me = me
        self._lease_seconds = lease_seconds
        self._seen: dict[str, _Seen] = {}
        self._live: list[Heartbeat] | None = None  # made anew when anything was seen
        self._met = False
        self.predecessors: frozenset[str] = frozenset()
        """Incarnations of my own name that were there before me, and never moved since.

        Their leases are mine to take at once. One that still moves is a worker like any other.
        """

    def meet(self, workers: Iterable[str]) -> None:
        """Tell, once and before my own first heartbeat, whose traces were there before me."""
        if not self._met:
            self._met = True
            mine = worker_name(self._me)
            self.predecessors = frozenset(
                w for w in workers if w != self._me and worker_name(w) == mine
            )

    def watch(self, beats: Iterable[Heartbeat], owners: Iterable[str], now: float) -> None:
        """Tell what a read of all heartbeats showed, and who owns leases; it may lag."""
        present = set[str]()
        for beat in beats:
            if beat.worker != self._me:
                present.add(beat.worker)
                self._update(beat.worker, beat, now)
        for worker in sorted(set(self._seen).union(owners) - present - {self._me}):
            self._update(worker, None, now)

    def confirm(self, worker: str, beat: Heartbeat | None, now: float) -> bool:
        """Tell what a consistent read of a suspect showed; True if it is dead by that."""
        self._update(worker, beat, now)
        seen = self._seen[worker]
        seen.dead = now - seen.since >= self._lease_seconds
        return seen.dead

    def forget(self, worker: str) -> None:
        """Tell that a worker's heartbeat is deleted and that it owns nothing."""
        self._live = None
        self._seen.pop(worker, None)

    def suspects(self, now: float) -> list[str]:
        """Return those to read consistently: they stood still for a lease time."""
        return [
            worker
            for worker, seen in self._seen.items()
            if not seen.dead
            and worker not in self.predecessors
            and now - seen.since >= self._lease_seconds
        ]

    def next_suspect_at(self, now: float) -> float:
        """Return when the next one will have stood still for a lease time, if it does not move."""
        times = (seen.since + self._lease_seconds for seen in self._seen.values() if not seen.dead)
        return min((at for at in times if at > now), default=float("inf"))

    def dead(self, worker: str) -> bool:
        """Say whether a worker's leases may be taken."""
        seen = self._seen.get(worker)
        return worker in self.predecessors or (seen is not None and seen.dead)

    def live(self) -> list[Heartbeat]:
        """Return the heartbeats of the others that live and stay, in the order of their names."""
        if self._live is None:
            self._live = [
                seen.beat
                for worker, seen in sorted(self._seen.items())
                if seen.beat is not None and not seen.beat.leaving and not self.dead(worker)
            ]
        return self._live

    def beat_of(self, worker: str) -> Heartbeat | None:
        """Return a live and staying worker's heartbeat."""
        seen = self._seen.get(worker)
        if seen is None or seen.beat is None or seen.beat.leaving or self.dead(worker):
            return None
        return seen.beat

    def buried(self, now: float) -> list[Heartbeat]:
        """Return heartbeats that stood still for two lease times: nobody needs them."""
        return [
            seen.beat
            for worker, seen in self._seen.items()
            if seen.beat is not None
            and (seen.dead or worker in self.predecessors)
            and now - seen.since >= 2 * self._lease_seconds
        ]

    def on_duty(self, thing: str) -> bool:
        """Say whether, of all workers that live, I am to look after something first."""
        return bool(self.on_duty_for((thing,)))

    def on_duty_for(self, things: Iterable[str]) -> list[str]:
        """Return those that I am to look after first."""
        live = self.live()
        above_me = bisect_left(live, self._me, key=lambda beat: beat.worker)
        workers = len(live) + 1
        return [i for i in things if crc32(i.encode()) % workers == above_me]

    def _update(self, worker: str, beat: Heartbeat | None, now: float) -> None:
        self._live = None
        seen = self._seen.get(worker)
        if seen is None:
            self._seen[worker] = _Seen(beat, now)
        elif beat is None:
            if seen.beat is not None:
                self._seen[worker] = _Seen(None, now)
        elif seen.beat is None or beat.count > seen.beat.count:
            self._seen[worker] = _Seen(beat, now)
            self.predecessors -= {worker}
