"""Everything about a world that a seed chooses before it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardline.consumer.job import PipelineLimits
from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import LATEST, TRIM_HORIZON

if TYPE_CHECKING:
    from random import Random

    from shardline.core.positions import Latest, TrimHorizon


@dataclass(frozen=True, slots=True)
class Knobs:
    """How large and how strict a world is."""

    streams: int
    shards: int
    workers: int
    lanes: int
    lease_seconds: float
    checkpoint_seconds: float
    capacity: int | None
    start: TrimHorizon | Latest
    batch_records: int
    read_ahead_records: int
    memory_bytes: int
    poll_seconds: float
    stall_seconds: float
    silence_seconds: float
    stop_seconds: float
    work_seconds: float
    """The longest that an ordinary call of the consumer takes."""
    failure_rate: float
    put_seconds: float
    """The mean time between two records of a stream."""
    empty_page_every: int
    stale_listing_one_in: int
    status_delay_ms: int
    limited: bool
    """True if the service's limits are on."""
    death_signal: bool
    """True if the system ends a runner together with its keeper."""
    one_name: bool
    """True if all workers have the same name."""
    most_back_ms: int = 0
    """By how much the stamp of a record may lie before that of an earlier one."""
    goes_on_after_gaps: bool = False
    fan_out: bool = False
    """True if runners subscribe to shards; they poll while that is refused."""

    tables: bool = False
    """True if the streams are those of DynamoDB tables."""

    stream_noise: float = 0.0
    """The share of calls to the stream that fail, whatever else goes wrong."""
    link_seconds: float = 0.01
    """The longest that a message between keeper and runner takes."""

    @property
    def times(self) -> LeaseTimes:
        return LeaseTimes(self.lease_seconds, self.checkpoint_seconds)

    @property
    def limits(self) -> PipelineLimits:
        return PipelineLimits(
            self.batch_records, self.read_ahead_records, poll_seconds=self.poll_seconds
        )


def choose_knobs(random: Random, *, peaceful: bool) -> Knobs:
    lease_seconds = random.choice((3.0, 5.0, 10.0))
    read_ahead_records = random.choice((1, 5, 1000))
    return Knobs(
        streams=random.choice((1, 1, 1, 2)),
        shards=random.choice((1, 2, 2, 3, 4)),
        workers=random.choice((1, 2, 2, 3, 4)),
        lanes=random.choice((1, 1, 2, 3)),
        lease_seconds=lease_seconds,
        checkpoint_seconds=random.choice((0.0, 2.0, 12.0)),
        capacity=random.choice((None, None, None, 2)),
        start=random.choice((TRIM_HORIZON, TRIM_HORIZON, TRIM_HORIZON, LATEST)),
        batch_records=random.choice((1, 3, 1000)),
        read_ahead_records=read_ahead_records,
        memory_bytes=random.choice((100, 10_000, 10_000_000)),
        poll_seconds=random.choice((0.25, 1.0, 2.0)) if read_ahead_records > 1 else 0.25,
        stall_seconds=3 * lease_seconds,
        silence_seconds=3 * lease_seconds,
        stop_seconds=random.choice((2.0, 10.0)) if not peaceful else 10.0,
        work_seconds=random.choice((0.01, 0.1, 0.3)) if not peaceful else 0.05,
        failure_rate=random.choice((0.0, 0.0, 0.05, 0.2)) if not peaceful else 0.0,
        put_seconds=random.choice((0.2, 0.5, 1.5)),
        empty_page_every=random.choice((0, 0, 2, 3)),
        stale_listing_one_in=random.choice((0, 0, 4)),
        status_delay_ms=random.choice((0, 200)),
        limited=random.random() < 0.3,
        death_signal=random.random() < 0.7,
        one_name=random.random() < 0.1,
        most_back_ms=random.choice((0, 0, 900)),
    )


def choose_more(random: Random, knobs: Knobs, *, peaceful: bool) -> Knobs:
    """Choose what was added later, by chances of its own: the rest of a seed stays as it was."""
    if peaceful:
        return replace(knobs, work_seconds=random.choice((0.05, 0.05, 0.3)))
    return replace(
        knobs,
        stream_noise=random.choice((0.0, 0.0, 0.03, 0.2)),
        link_seconds=random.choice((0.01, 0.01, 0.3)),
    )


def choose_size(random: Random, knobs: Knobs) -> tuple[Knobs, float]:
    """Make most worlds small and short; return the knobs, and for how many lease times it fails.

    Few shards and workers, close together in time, show most bugs for a fraction of the cost. One
    world in twenty-five stays as it was chosen.
    """
    if random.random() < 0.04:
        return knobs, 8.0
    leases = random.choice((3.0, 4.0, 6.0))
    small = replace(
        knobs,
        streams=1 if random.random() < 0.9 else knobs.streams,
        shards=min(knobs.shards, 2),
        workers=min(knobs.workers, 3),
        lease_seconds=3.0,
        stall_seconds=9.0,
        silence_seconds=9.0,
        poll_seconds=max(knobs.poll_seconds, 0.5) if knobs.read_ahead_records > 1 else 0.25,
    )
    return small, leases


def choose_service(random: Random, knobs: Knobs) -> Knobs:
    """Let the streams of one world in ten be those of tables: no times, and no calls to limit."""
    if random.random() >= 0.1:
        return knobs
    return replace(knobs, tables=True, start=TRIM_HORIZON, limited=False, most_back_ms=0)
