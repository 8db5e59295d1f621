"""Which other workers live, as one worker observes it: counters on its own clock, never times."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardline.core.leasing.rows import Heartbeat


@dataclass(slots=True)
class _Observed:
    beat: Heartbeat | None
    """As last read; None while there is none."""
    since: float
    """When, on this worker's clock, it was first read like this."""
    dead: bool = False


class Peers:
    """The other workers. A counter that stood still for `lease_seconds` has a dead owner."""

    def __init__(self, me: str, lease_seconds: float) -> None:
        self._me = me
        self._lease_seconds = lease_seconds
        self._observed: dict[str, _Observed] = {}
        self._live: list[Heartbeat] | None = None  # computed anew after every read

    def observe(self, beats: Iterable[Heartbeat], owners: Iterable[str], now: float) -> None:
        """Record a read of all heartbeats, which may lag, and who owns leases."""
        present = set[str]()
        for beat in beats:
            if beat.worker != self._me:
                present.add(beat.worker)
                self._update(beat.worker, beat, now)
        for worker in sorted(set(self._observed).union(owners) - present - {self._me}):
            self._update(worker, None, now)

    def confirm(self, worker: str, beat: Heartbeat | None, now: float) -> bool:
        """Record a consistent read of a suspect; return true if it is dead by that."""
        self._update(worker, beat, now)
        observed, self._live = self._observed[worker], None
        observed.dead = now - observed.since >= self._lease_seconds
        return observed.dead

    def forget(self, worker: str) -> None:
        """Record that a worker's heartbeat is deleted and that it owns nothing."""
        self._live = None
        self._observed.pop(worker, None)

    def suspects(self, now: float) -> list[str]:
        """Return those to read consistently: they stood still for a lease time."""
        return [
            worker
            for worker, observed in self._observed.items()
            if not observed.dead and now - observed.since >= self._lease_seconds
        ]

    def next_suspect_at(self, now: float) -> float:
        """Return when the next one will have stood still for a lease time, if it does not move."""
        since = now - self._lease_seconds
        moved = [o.since for o in self._observed.values() if not o.dead and o.since > since]
        return min(moved) + self._lease_seconds if moved else float("inf")

    def dead(self, worker: str) -> bool:
        """Return true if a worker's leases may be taken."""
        observed = self._observed.get(worker)
        return observed is not None and observed.dead

    def all_dead(self) -> bool:
        """Return true if no other worker is known that may live, with a heartbeat or without."""
        return all(observed.dead for observed in self._observed.values())

    def departed(self, worker: str) -> bool:
        """Return true if a worker leaves or has left: it releases what it owned."""
        observed = self._observed.get(worker)
        return observed is not None and (observed.beat is None or observed.beat.leaving)

    def of_departed(self, owned: Mapping[str | None, Iterable[str]]) -> list[str]:
        """Return the shards whose owner has left, as far as is known: they were released."""
        owners = [o for o in owned if o and o != self._me and self.departed(o)]
        return sorted(i for owner in owners for i in owned[owner])

    def live(self) -> list[Heartbeat]:
        """Return the heartbeats of the others that live and stay, in the order of their names."""
        if self._live is None:
            self._live = [
                observed.beat
                for _, observed in sorted(self._observed.items())
                if observed.beat is not None and not observed.beat.leaving and not observed.dead
            ]
        return self._live

    def beat_of(self, worker: str) -> Heartbeat | None:
        """Return a live and staying worker's heartbeat."""
        observed = self._observed.get(worker)
        if observed is None or observed.beat is None or observed.beat.leaving or observed.dead:
            return None
        return observed.beat

    def buried(self, now: float) -> list[Heartbeat]:
        """Return heartbeats that stood still for two lease times: nobody needs them."""
        return [
            observed.beat
            for observed in self._observed.values()
            if observed.beat is not None
            and observed.dead
            and now - observed.since >= 2 * self._lease_seconds
        ]

    def on_duty(self, thing: str) -> bool:
        """Return true if, of all workers that live, this one looks after something first."""
        return bool(self.on_duty_for((thing,)))

    def on_duty_for(self, things: Iterable[str]) -> list[str]:
        """Return those that this worker looks after first."""
        live = self.live()
        above_me = bisect_left(live, self._me, key=lambda beat: beat.worker)
        workers = len(live) + 1
        return [i for i in things if crc32(i.encode()) % workers == above_me]

    def _update(self, worker: str, beat: Heartbeat | None, now: float) -> None:
        observed = self._observed.get(worker)
        known = observed.beat if observed is not None else None
        moved = beat is not None and (known is None or beat.count > known.count)
        if observed is None or moved or (beat is None and known is not None):
            self._observed[worker] = _Observed(beat, now)
            self._live = None
