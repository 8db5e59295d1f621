"""What the logs of worker processes tell: how long a fault was felt, and what came again why."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shardline.cli.demo.workers import Log
    from shardline.core.promise import PromiseChecker


class Strike(NamedTuple):
    """Something that was done to a worker."""

    at: float
    kind: str
    owner: str
    """Of the log of that process."""


class Standstill(NamedTuple):
    """A time in which nobody could write to the lease table."""

    began_at: float
    ended_at: float


class History:
    """All lines of all workers, in the order in which they happened, by one clock."""

    def __init__(self, logs: Iterable[Log]) -> None:
        self._lines = sorted((x for log in logs for x in log.lines), key=lambda x: x.at)
        self._delivered = [line for line in self._lines if line.what == "delivered"]

    def tell(self, checker: PromiseChecker) -> None:
        for line in self._lines:
            if line.what == "delivered":
                checker.delivered(line.shard_id, line.fence, line.records, line.owner)
            elif line.what == "checkpointed":
                upto = line.records[0].sequence if line.records else None
                checker.checkpointed(line.shard_id, line.fence.epoch, upto, line.owner)

    def repeats_without_a_reason(self) -> list[str]:
        """Return repeats though every owner since the first delivery gave the lease back."""
        stolen: dict[str, list[int]] = {}
        for line in self._lines:
            if line.what == "stolen":
                stolen.setdefault(line.shard_id, []).append(line.fence.epoch)
        found: list[str] = []
        delivered_under: dict[tuple[str, int], int] = {}
        for line in self._delivered:
            epoch = line.fence.epoch
            for record in line.records:
                place = (line.shard_id, record.sequence)
                before = delivered_under.setdefault(place, epoch)
                if before < epoch:
                    delivered_under[place] = epoch
                    if not any(before < each <= epoch for each in stolen.get(line.shard_id, ())):
                        found.append(f"{place}: under {before}, then by {line.owner} under {epoch}")
        return found

    def failover_seconds(
        self, strikes: Iterable[Strike], kind: str, standstills: Sequence[Standstill]
    ) -> list[float]:
        """Return, for every shard that a struck worker was reading, when another one read it.

        Without those that had to wait for a standstill to end.
        """
        felt: list[float] = []
        for strike in strikes:
            if strike.kind != kind:
                continue
            reader: dict[str, str] = {}
            for line in self._delivered:
                if line.at < strike.at:
                    reader[line.shard_id] = line.owner
                elif reader.get(line.shard_id) == strike.owner:
                    del reader[line.shard_id]
                    stood = any(
                        s.began_at < line.at and strike.at < s.ended_at for s in standstills
                    )
                    if line.owner != strike.owner and not stood:
                        felt.append(line.at - strike.at)
        return felt

    def handover_seconds(self) -> list[float]:
        """Return, for every lease that was asked for and given, when its asker read from it."""
        felt: list[float] = []
        asked: dict[tuple[str, str], float] = {}
        for line in self._lines:
            key = (line.owner, line.shard_id)
            if line.what == "asked":
                asked.setdefault(key, line.at)
            elif line.what == "stolen":
                asked.pop(key, None)  # its owner died instead
            elif line.what == "delivered" and key in asked:
                felt.append(line.at - asked.pop(key))
        return felt


def distribution(what: str, seconds: list[float]) -> str:
    """Say how long it took, in one line."""
    if not seconds:
        return f"{what:32} never happened"
    ordered = sorted(seconds)
    lowest, middle, late, highest = (
        ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1) if part else 0]
        for part in (0, 0.5, 0.9, 1)
    )
    return (
        f"{what:32} {len(ordered):3} shards: min {lowest:.1f}, p50 {middle:.1f}, "
        f"p90 {late:.1f}, max {highest:.1f} s"
    )
