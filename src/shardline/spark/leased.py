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
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from shardline.core.leasing_times import LeaseTimes
from shardline.core.lineage import Lineage, Standing, State
from shardline.core.offsets import Offset, Range
from shardline.core.planning import Claim, Ground, Standpoint
from shardline.core.shards import AtTime, Latest, Shard, TrimHorizon
from shardline.errors import ConfigurationError, LeaseLost
from shardline.leases.coordinator import Coordinator
from shardline.leases.opening import open_table
from shardline.services.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shardline.core.leasing import Held
    from shardline.core.shards import Position
    from shardline.services.port import StreamService
    from shardline.spark.options import LeaseOptions, Options

logger = logging.getLogger(__name__)

Confirmed = dict[str, Range]

_QUIET_REFRESH: Final = timedelta(hours=1)
"""A quiet shard is written down this often; retention is 24 h or more."""


class LeasedOwner:
    """One Spark application among several that share a stream."""

    def __init__(self, coordinator: Coordinator, only_one: IO[str] | None = None) -> None:
        self._coordinator = coordinator
        self._only_one = only_one  # kept open: its lock ends with this process
        self._running = False
        self._left = False
        self._confirmed: tuple[Offset, Confirmed] | None = None
        self._begun: set[tuple[str, int]] = set()

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
        held: dict[str, Held] = {}
        for shard_id, lease in self._held().items():
            if lease.finishing:
                self._finish(shard_id, lease.epoch)
            else:
                held[shard_id] = lease
        return Ground(
            start=committed.start,
            created_at=created_at,
            standpoints={k: Standpoint(v.checkpoint, v.as_of) for k, v in held.items()},
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
        if self._confirmed is None or self._confirmed[0] != planned:
            full = {k: item for k, item in planned.ranges.items() if not item.empty}
            confirmed = self._still_ours(full) if self._running else self._resumed(full)
            for shard_id in full.keys() - confirmed.keys():
                logger.warning(
                    "%s: dropped from a planned batch, because its lease is not ours under epoch "
                    "%d any more; its owner reads it from the lease table's checkpoint on",
                    shard_id,
                    full[shard_id].epoch,
                )
            self._confirmed = (planned, confirmed)
        return self._confirmed[1]

    def begins(self, shard_id: str, item: Range) -> bool:
        """Say whether this is the first range of a shard under its epoch."""
        first = (shard_id, item.epoch) not in self._begun
        self._begun.add((shard_id, item.epoch))
        return first

    def acknowledge(self, committed: Offset) -> None:
        """Checkpoint what was confirmed of this batch here; complete what it read to the end."""
        if self._confirmed is None or self._confirmed[0] != committed:
            return
        confirmed = self._confirmed[1]  # what was dropped is not in it, and never acknowledged
        quiet = {k: v for k, v in committed.ranges.items() if v.empty and self._is_older(k, v)}
        for shard_id, item in (confirmed | quiet).items():
            try:
                if item.ends:
                    self._coordinator.complete(shard_id, item.epoch)
                else:
                    self._coordinator.checkpoint(shard_id, item.epoch, item.upto, item.as_of)
            except LeaseLost as lost:
                logger.warning("%s", lost)

    def release(self) -> None:
        """Write down what was acknowledged, and give every lease back."""
        if self._running and not self._left:
            self._left = True
            self._coordinator.leave()

    def _held(self) -> dict[str, Held]:
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
        """Take over what an earlier process of this worker had planned, where that is certain.

        The take must have been conditional on the epoch under which the range was planned, and
        the table's checkpoint must be where the range begins: then the same records follow.
        """
        resumed = self._coordinator.resume({k: item.epoch for k, item in ranges.items()})
        self._run()
        held = self._coordinator.held()
        return {
            shard_id: replace(item, epoch=held[shard_id].epoch)
            for shard_id, item in ranges.items()
            if shard_id in resumed and shard_id in held and held[shard_id].checkpoint == item.after
        }

    def _finish(self, shard_id: str, epoch: int) -> None:
        try:
            self._coordinator.finish(shard_id, epoch)
        except LeaseLost as lost:
            logger.warning("%s", lost)


def leased_owner(options: Options, leases: LeaseOptions, service: StreamService) -> LeasedOwner:
    """Return the owner of a query that shares its stream with others of the same app."""
    stream_name = parse_address(options.connection.address).stream_name
    table = leases.table
    return LeasedOwner(
        Coordinator(
            open_table(
                table.address,
                region=table.region,
                endpoint_url=table.endpoint_url,
                profile=table.profile,
                role_arn=table.role_arn,
            ),
            service,
            leases.app_name,
            stream_name,
            leases.worker_name or f"{socket.gethostname()}-{uuid.uuid4().hex[:12]}",
            start=_start(options.start),
            times=LeaseTimes(lease_seconds=leases.lease_seconds),
            goes_on_after_gaps=not options.fail_on_data_loss,
        ),
        _require_only_one(leases.app_name, stream_name),
    )


def _start(position: Position) -> TrimHorizon | Latest | AtTime:
    if isinstance(position, TrimHorizon | Latest | AtTime):
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
