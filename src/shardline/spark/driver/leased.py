"""Shards that are planned under leases: the lease table is the truth, Spark's offset a description.

What may be acknowledged is what this very process confirmed for reading, under an epoch that is
still ours. A batch that an earlier process planned is read again only for shards that nobody else
can have had in between, and only from where the table says; the rest of it is dropped here, and
somebody reads it from the table's checkpoint on.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import socket
import tempfile
import time
import uuid
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from shardline.core.leasing.times import LeaseTimes
from shardline.core.lineage import Lineage, Standing, State
from shardline.core.offsets import Offset, Range
from shardline.core.planning import Claim, Ground, Standpoint
from shardline.core.positions import TRIM_HORIZON, AtTime, Latest, TrimHorizon
from shardline.core.shards import Shard
from shardline.errors import ConfigurationError, LeaseLost
from shardline.leases.address import open_table
from shardline.leases.coordinator import Coordinator
from shardline.services.addresses import parse_address
from shardline.spark.process_metrics import LEASES, write_tally

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shardline.core.leasing.state import Held
    from shardline.core.offsets import Gap
    from shardline.core.positions import Position
    from shardline.services.port import StreamService
    from shardline.spark.options import LeaseOptions, Options

logger = logging.getLogger(__name__)

Confirmed = dict[str, Range]

_LOOK_SECONDS: Final = 0.2
_LEAVE_AGAIN_SECONDS: Final = 1.0
_QUIET_REFRESH: Final = timedelta(hours=1)
"""A quiet shard is written down this often; retention is 24 h or more."""


class LeasedOwner:
    """One Spark application among several that share a stream."""

    def __init__(
        self,
        coordinator: Coordinator,
        only_one: IO[str] | None = None,
        *,
        tally: Callable[[Mapping[str, int]], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._coordinator = coordinator
        self._only_one = only_one  # kept open: its lock ends with this process
        self._tally = tally
        self._monotonic = monotonic
        self._look_at = self._leave_at = 0.0
        self._running = False
        self._left = False
        self._confirmed: tuple[object, Confirmed] | None = None
        """The newest batch as it is written down, and what of it may be read."""
        self._begun: set[tuple[str, int]] = set()
        self._settled: dict[str, tuple[int, bool]] = {}
        """The leases of the last plan: epoch, and whether somebody waits for it."""
        self._ended: set[str] = set()
        self._counts = {"held": 0, "taken": 0, "lost": 0, "handed_over": 0, "completed": 0}
        self._known_gaps: tuple[Gap, ...] = ()
        self._gone_on: dict[str, Position] = {}
        """Positions that the service has no more, of shards that go on at its horizon."""

    def settle(
        self,
        committed: Offset,
        listed: Collection[Shard],
        *,
        created_at: datetime,
        now: datetime,  # noqa: ARG002 - the port's names
        retention: timedelta,  # noqa: ARG002
        gone: AbstractSet[str],  # noqa: ARG002
    ) -> Ground:
        """Go on where the lease table says, in the shards that are held and not asked for.

        Nothing runs while Spark asks for a plan, so what others wait for can be given now.
        """
        by_id = {shard.id: shard for shard in listed}
        every = self._held()
        self._count(every)
        for shard_id, lease in every.items():
            if lease.finishing:
                self._finish(shard_id, lease.epoch)
        held = {k: v for k, v in every.items() if not v.finishing}
        return Ground(
            start=committed.start,
            created_at=created_at,
            standpoints={k: self._standpoint(k, v) for k, v in held.items()},
            drained={},
            lineage=Lineage(
                {
                    k: Standing(k, State.READABLE, shard=by_id.get(k) or Shard(k))
                    for k in sorted(held)
                },
                gaps=(),
            ),
            gaps=committed.gaps,
        )

    def changed(self) -> bool:
        """Say whether leases came, went or were asked for since the last plan; look now and then.

        Without that a new lease, or somebody who waits for one, would wait for the next look.
        """
        now = self._monotonic()
        if not self._running or now < self._look_at:
            return False
        self._look_at = now + _LOOK_SECONDS
        return _summary(self._coordinator.held()) != self._settled

    def claims(self, readable: Collection[str]) -> Mapping[str, Claim]:
        """Claim what is held, under its epoch."""
        held = self._held()
        return {
            shard_id: Claim(held[shard_id].epoch)
            for shard_id in readable
            if shard_id in held and not held[shard_id].finishing
        }

    def confirm(self, planned: Offset) -> Confirmed:
        """Decide against the table, once for each batch."""
        written = planned.to_json()
        if self._confirmed is None or self._confirmed[0] != written:
            full = {k: item for k, item in planned.ranges.items() if not item.empty}
            confirmed = self._still_ours(full) if self._running else self._resumed(full)
            for shard_id in full.keys() - confirmed.keys():
                logger.warning(
                    "%s: dropped from a planned batch, because its lease is not ours under epoch "
                    "%d any more; its owner reads it from the lease table's checkpoint on",
                    shard_id,
                    full[shard_id].epoch,
                )
            self._confirmed = (written, confirmed)
        return self._confirmed[1]

    def begins(self, shard_id: str, item: Range) -> bool:
        """Say whether this is the first range of a shard under its epoch."""
        first = (shard_id, item.epoch) not in self._begun
        self._begun.add((shard_id, item.epoch))
        return first

    def acknowledge(self, committed: Offset) -> None:
        """Checkpoint what was confirmed of this batch here; complete what it read to the end."""
        if self._confirmed is None or self._confirmed[0] != committed.to_json():
            return
        confirmed = self._confirmed[1]  # what was dropped is not in it, and never acknowledged
        self._record_gaps(committed, confirmed)
        quiet = {k: v for k, v in committed.ranges.items() if v.empty and self._is_older(k, v)}
        for shard_id, item in (confirmed | quiet).items():
            try:
                if item.ends:
                    self._coordinator.complete(shard_id, item.epoch)
                    self._ended.add(shard_id)
                else:
                    self._coordinator.checkpoint(shard_id, item.epoch, item.upto, item.as_of)
            except LeaseLost as lost:
                _warn(lost)

    def release(self) -> bool:
        """Write down what was acknowledged, and give every lease back; False if the table failed.

        Asked again, it is tried again, now and then.
        """
        if self._running and not self._left and self._monotonic() >= self._leave_at:
            self._coordinator.leave()
            self._left = not self._coordinator.state.mine
            self._leave_at = self._monotonic() + _LEAVE_AGAIN_SECONDS
        if self._only_one is not None:
            Path(self._only_one.name).unlink(missing_ok=True)
        return self._left or not self._running

    def _held(self) -> Mapping[str, Held]:
        if not self._running:
            self._coordinator.tick()
            self._run()
        return self._coordinator.held()

    def _run(self) -> None:
        self._running = True
        self._coordinator.start()

    def _is_older(self, shard_id: str, quiet: Range) -> bool:
        """Say whether the table should learn anew when a quiet shard had nothing unread."""
        held = self._coordinator.held().get(shard_id)
        if held is None or held.epoch != quiet.epoch or quiet.as_of is None:
            return False
        return held.as_of is None or quiet.as_of - held.as_of > _QUIET_REFRESH

    def _still_ours(self, ranges: Confirmed) -> Confirmed:
        held = self._coordinator.held()
        return {k: v for k, v in ranges.items() if k in held and held[k].epoch == v.epoch}

    def _resumed(self, ranges: Confirmed) -> Confirmed:
        """Return nothing: each process is a worker of its own, and reads on from the table."""
        del ranges
        self._run()
        return {}

    def _finish(self, shard_id: str, epoch: int) -> None:
        try:
            self._coordinator.finish(shard_id, epoch)
        except LeaseLost as lost:
            _warn(lost)

    def _standpoint(self, shard_id: str, lease: Held) -> Standpoint:
        if self._gone_on.get(shard_id) == lease.checkpoint:
            return Standpoint(TRIM_HORIZON, None)
        return Standpoint(lease.checkpoint, lease.as_of)

    def _record_gaps(self, committed: Offset, confirmed: Confirmed) -> None:
        """Write new gaps into their lease rows, where they outlive this query's checkpoint."""
        for gap in committed.gaps:
            if gap in self._known_gaps:
                continue
            self._gone_on[gap.shard_id] = gap.after
            item = confirmed.get(gap.shard_id) or committed.ranges.get(gap.shard_id)
            said = f"behind {gap.after}, noticed {gap.noticed_at.isoformat()}: {gap.reason}"
            try:
                if item is not None:
                    self._coordinator.note_gap(gap.shard_id, item.epoch, said)
            except LeaseLost as lost:
                _warn(lost)
        self._known_gaps = committed.gaps

    def _count(self, held: Mapping[str, Held]) -> None:
        """Count what came and went since the last plan."""
        now, before, counts = _summary(held), self._settled, dict(self._counts)
        counts["held"] = len(now)
        counts["taken"] += sum(k not in before or before[k][0] != v[0] for k, v in now.items())
        for shard_id, (epoch, finishing) in before.items():
            if shard_id in now and now[shard_id][0] == epoch:
                continue
            ended = shard_id in self._ended and shard_id not in now
            counts["completed" if ended else "handed_over" if finishing else "lost"] += 1
        self._ended &= now.keys()
        self._settled = now
        if counts != self._counts:
            self._counts = counts
            self._tally(counts)


def _summary(held: Mapping[str, Held]) -> dict[str, tuple[int, bool]]:
    return {shard_id: (lease.epoch, lease.finishing) for shard_id, lease in held.items()}


def _warn(lost: LeaseLost) -> None:
    """Say in one line what was lost; the story behind it is for whoever asks."""
    first, _, story = str(lost).partition("\n")
    logger.warning("%s", first.removesuffix(" What happened:"))
    logger.debug("%s", story)


def leased_owner(options: Options, leases: LeaseOptions, service: StreamService) -> LeasedOwner:
    """Return the owner of a query that shares its stream with others of the same app."""
    stream_name = parse_address(options.connection.address).stream_name
    table = leases.table
    return LeasedOwner(
        Coordinator(
            open_table(
                table.address,
                table.access,
            ),
            service,
            leases.app_name,
            stream_name,
            leases.worker_name or f"{socket.gethostname()}-{uuid.uuid4().hex[:12]}",
            start=_start(options),
            times=LeaseTimes(lease_seconds=leases.lease_seconds),
            goes_on_after_gaps=not options.fail_on_data_loss,
        ),
        _require_only_one(leases.app_name, stream_name),
        tally=_tally_of(options),
    )


def _tally_of(options: Options) -> Callable[[Mapping[str, int]], None]:
    if options.stop_file is None:
        return lambda _: None
    return partial(write_tally, Path(options.stop_file).parent, LEASES)


def _start(options: Options) -> TrimHorizon | Latest | AtTime:
    position = options.start
    if options.resume is None and isinstance(position, TrimHorizon | Latest | AtTime):
        return position
    raise ConfigurationError(
        "startingPosition: with a lease table begin at trim_horizon, latest or a time; the table "
        "says where each shard goes on"
    )


def _require_only_one(app_name: str, stream_name: str) -> IO[str]:
    """Refuse a second source of the same app under the same Spark driver.

    Both would be the same worker, and each would take the other's leases. Source processes of
    one driver have the same parent.
    """
    name = hashlib.sha256(f"{app_name}\0{stream_name}".encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"shardline-{os.getuid()}-{os.getppid()}-{name}.lock"
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigurationError(
            f"app {app_name!r} already reads {stream_name} in this Spark application: one leased "
            "load() for each app and stream. To write to two sinks, use one foreachBatch; for a "
            "self-join, give each side an appName of its own"
        ) from None
    return lock
