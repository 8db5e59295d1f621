"""Plans the batches of a query, on the driver: lists, looks ahead, and writes the ranges down."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core import planning
from shardline.core.lineage import uncovered
from shardline.core.offsets import Gap, Offset
from shardline.core.planning import Claim, Ground, Look, Standpoint
from shardline.core.positions import LATEST, After, AtTime
from shardline.errors import (
    GapError,
    PositionTrimmed,
    ShardlineError,
    ShardNotFound,
    StreamNotFound,
)
from shardline.spark.driver.inline_records import pack
from shardline.spark.driver.tip_finder import Lookout, Seen
from shardline.spark.executor.reader import ShardRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from shardline.core.offsets import Range
    from shardline.core.positions import Position
    from shardline.core.shards import Shard
    from shardline.services.port import StreamDescription, StreamService
    from shardline.spark.driver.ownership import Ownership

logger = logging.getLogger(__name__)

_LIST_SECONDS: Final = 5.0
_LIST_AGAIN_SECONDS: Final = 0.5
_LISTINGS_FOR_TARGET: Final = 10
_DESCRIBE_SECONDS: Final = 30.0
_VERIFIED_SECONDS: Final = 60.0
_IDLE_REFRESH: Final = timedelta(hours=1)
"""An idle query writes down this often that nothing unread was there; retention is 24 h or more."""

_THREADS: Final = 16


class Planner:
    """Plans one query's batches. Used by one thread; looks at many shards at once."""

    def __init__(
        self,
        service: StreamService,
        ownership: Ownership,
        *,
        start: Position,
        fail_on_data_loss: bool = True,
        stop_file: Path | None = None,
        tell: Callable[[Offset], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        self._ownership = ownership
        self._start = start
        self._fail_on_data_loss = fail_on_data_loss
        self._stop_file = stop_file
        self._tell = tell
        self._stopped = False
        self._monotonic = monotonic
        self._sleep = sleep
        self._lookout = Lookout(service, monotonic)
        self._pool: ThreadPoolExecutor | None = None
        self._listed: tuple[Shard, ...] = ()
        self._list_at = 0.0
        self._described: StreamDescription | None = None
        self._describe_at = 0.0
        self._gone: set[str] = set()
        self._verified: dict[tuple[str, Position], float] = {}
        self._trimmed: set[tuple[str, Position]] = set()
        self._with_gaps: set[str] = set()
        """Of the batch that was confirmed last: the shards of which records are lost."""
        self._accepted: list[Gap] = []
        """The gaps of batches that were planned before, until they are written down."""
        self._committed: Offset | None = None
        self._nothing_before = 0.0
        self._until: datetime | None = None
        self._targets: set[str] = set()
        self._done: set[str] = set()
        self._waiting: set[str] = set()
        self.latest: Offset | None = None
        """The newest plan, committed or not: what `reportLatestOffset` tells."""

    def beginning(self) -> Offset:
        """Return the offset before anything is resolved. The same in every process."""
        return Offset(self._start)

    def fix_target(self) -> None:
        """Count only what has arrived by now from here on, so that the query can end."""
        for _ in range(_LISTINGS_FOR_TARGET):
            self._list(force=True)
            if not uncovered(self._listed):
                break
            self._sleep(_LIST_AGAIN_SECONDS)
        # What is listed later was born later, and holds nothing that counts.
        self._targets = {shard.id for shard in self._listed}
        # The service tells whole seconds, rounded down.
        self._until = self._now() + timedelta(seconds=1)
        self._done = set()

    def plan(self, committed: Offset, max_records: int | None) -> Offset | None:
        """Plan the batch behind a committed one; None if there is nothing to put into it now.

        With a target, wait until there is something, so that None means that the target is reached.
        """
        if committed != self._committed:
            self._ownership.acknowledge(committed)
            self._committed = committed
            self._nothing_before = 0.0
        if self._asked_to_stop():
            return None
        while True:
            if self._monotonic() >= self._nothing_before or self._ownership.changed():
                planned = self._plan(committed, max_records)
                if planned is not None:
                    self.latest = planned
                    return planned
            if self._until is None or not self._waiting:
                return None
            self._sleep(0.02)

    def confirm(self, committed: Offset, planned: Offset) -> Mapping[str, Range]:
        """Return the ranges of a planned batch to read, or say why they cannot be read any more."""
        self._check_stream(planned)
        self._list(force=not self._listed)
        # What is not ours to read any more is no gap of ours either.
        confirmed = dict(self._ownership.confirm(planned))
        before = {
            shard_id: Standpoint(item.upto, item.as_of)
            for shard_id, item in committed.ranges.items()
            if shard_id in confirmed
            and (item.upto == confirmed[shard_id].after or isinstance(item.upto, AtTime))
        }
        lost = set(self._suspects(before))
        if planned != self.latest:  # by a process before this one, however long ago
            lost.update(
                shard_id for shard_id, item in confirmed.items() if not self._kept(shard_id, item)
            )
        self._with_gaps = lost
        for shard_id in lost:
            standpoint = before.get(shard_id) or Standpoint(confirmed[shard_id].after, None)
            self._fail_if_asked(shard_id, standpoint, _AGED)
            gap = Gap(shard_id, standpoint.position, standpoint.as_of, self._now(), _AGED)
            self._accepted.append(gap)
            if not self._service.has_shard(shard_id):
                del confirmed[shard_id]
        return confirmed

    def _kept(self, shard_id: str, item: Range) -> bool:
        """Ask whether the ends of a range that was planned before are still there."""
        try:
            if isinstance(item.after, After) and not self._service.finds_times:
                self._lookout.still_kept(shard_id, item.after)
            return not isinstance(item.upto, After) or self._lookout.still_kept(shard_id, item.upto)
        except (PositionTrimmed, ShardNotFound):
            return False

    def to_read(self, shard_id: str, item: Range) -> ShardRange:
        """Return a confirmed range as it travels to an executor."""
        begins = self._ownership.begins(shard_id, item)
        carried = self._lookout.take_carried(shard_id, item)
        packed = None if carried is None else pack(carried)
        return ShardRange(shard_id, item, begins, packed, shard_id in self._with_gaps)

    def _asked_to_stop(self) -> bool:
        """Plan no more once the stop file is there; all is acknowledged by then, and let go."""
        if self._stop_file is not None and not self._stopped and self._stop_file.exists():
            self._stopped = self._ownership.release()
            if self._stopped:
                self._stop_file.unlink(missing_ok=True)
            return True
        return self._stopped

    def stop(self) -> None:
        """Let go of leases, threads and connections."""
        self._ownership.release()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._service.close()

    # --- one plan ---------------------------------------------------------------------------

    def _plan(self, committed: Offset, max_records: int | None) -> Offset | None:
        self._list()
        created_at = self._check_stream(committed)
        ground = self._settle(committed, created_at)
        self._accepted = [gap for gap in self._accepted if gap not in committed.gaps]
        ground = planning.note_gaps(self._apply_gap_policy(ground), self._accepted)
        ground = self._pin(ground)
        readable = {shard.id for shard in ground.lineage.readable} & ground.standpoints.keys()
        if self._until is not None:
            readable &= self._targets
        claims = self._ownership.claims(readable)
        ground = self._freshen(ground, claims)
        seen = self._look(ground, claims, max_records)
        self._done.update(shard_id for shard_id, found in seen.items() if found.at_tip)
        self._waiting = claims.keys() - self._done
        sights = {shard_id: found.sight for shard_id, found in seen.items()}
        planned = planning.next_offset(ground, sights, claims)
        self._tell(planned)
        if any(item.ends for item in planned.ranges.values()):
            self._list_at = min(self._list_at, self._monotonic() + _LIST_AGAIN_SECONDS)
        if planning.holds_news(committed, planned):
            return planned
        if planning.stale(committed, planned, after=_IDLE_REFRESH):
            return planned
        self._nothing_before = min(
            [self._list_at, *(self._lookout.next_look_at(shard_id) for shard_id in claims)]
        )
        return None

    def _settle(self, committed: Offset, created_at: datetime) -> Ground:
        retention = self._retention()
        while True:
            ground = self._ownership.settle(
                committed,
                self._listed,
                created_at=created_at,
                now=self._now(),
                retention=retention,
                gone=self._gone,
            )
            vanished = [
                shard_id
                for shard_id in ground.lineage.undiscovered
                if shard_id not in self._gone and not self._service.has_shard(shard_id)
            ]
            if not vanished:
                if ground.lineage.undiscovered:
                    self._list_at = min(self._list_at, self._monotonic() + _LIST_AGAIN_SECONDS)
                return ground
            self._gone.update(vanished)

    def _apply_gap_policy(self, ground: Ground) -> Ground:
        now = self._now()
        for shard_id in ground.lineage.gaps:
            self._fail_if_asked(shard_id, ground.standpoints[shard_id], _GONE)
            ground = planning.give_up(ground, shard_id, now=now, reason=_GONE)
        for shard_id, standpoint in ground.standpoints.items():
            if (shard_id, standpoint.position) in self._trimmed:
                ground = planning.go_on_at_horizon(ground, shard_id, now=now, reason=_TRIMMED)
        for shard_id in self._suspects(ground.standpoints):
            self._fail_if_asked(shard_id, ground.standpoints[shard_id], _AGED)
            ground = planning.go_on_at_horizon(ground, shard_id, now=now, reason=_AGED)
        return ground

    def _suspects(self, standpoints: Mapping[str, Standpoint]) -> list[str]:
        if not self._service.finds_times:
            return []  # DynamoDB Streams says of a trimmed position that it is
        found: list[str] = []
        for shard_id in planning.suspects(
            standpoints, now=self._now(), retention=self._retention()
        ):
            position = standpoints[shard_id].position
            verified_at = self._verified.get((shard_id, position))
            if verified_at is not None and self._monotonic() - verified_at < _VERIFIED_SECONDS:
                continue
            if self._is_listed(shard_id) and self._lookout.still_kept(shard_id, position):
                self._verified[shard_id, position] = self._monotonic()
            else:
                found.append(shard_id)
        return found

    def _fail_if_asked(self, shard_id: str, standpoint: Standpoint, reason: str) -> None:
        message = _describe_gap(shard_id, standpoint, reason)
        if self._fail_on_data_loss:
            raise GapError(
                f"{message} To go on with what is left, set failOnDataLoss to false; the gap is "
                "then kept in the offset"
            )
        logger.warning("%s Going on, as failOnDataLoss is false; it is kept in the offset", message)

    def _pin(self, ground: Ground) -> Ground:
        """Resolve "latest" once and for all: the plan that follows is an empty first batch."""
        floating = [k for k, v in ground.standpoints.items() if v.position == LATEST]
        if not floating:
            return ground
        pinned = dict(zip(floating, self._threads().map(self._lookout.pin, floating), strict=True))
        return replace(ground, standpoints={**ground.standpoints, **pinned})

    def _freshen(self, ground: Ground, claims: Mapping[str, Claim]) -> Ground:
        """Begin where the claims say, and with what looking taught since the last commit."""
        standpoints = dict(ground.standpoints)
        for shard_id, claim in claims.items():
            if claim.after is not None:
                standpoints[shard_id] = Standpoint(claim.after, None)
            standpoints[shard_id] = self._lookout.freshest(shard_id, standpoints[shard_id])
        return replace(ground, standpoints=standpoints)

    def _look(
        self, ground: Ground, claims: Mapping[str, Claim], max_records: int | None
    ) -> dict[str, Seen]:
        self._lookout.forget(set(claims))
        now = self._monotonic()
        due = [
            shard_id
            for shard_id in sorted(claims, key=self._lookout.next_look_at)
            if self._lookout.next_look_at(shard_id) <= now
            and (self._until is None or shard_id not in self._done)
        ]
        seen: dict[str, Seen] = {}
        # More shards than records allowed: look at the next ones where the first have nothing.
        for wave in _waves(due, max_records):
            seen |= self._look_together(
                {shard_id: ground.standpoints[shard_id] for shard_id in wave}, max_records
            )
            if any(found.sight.upto != ground.standpoints[k].position for k, found in seen.items()):
                break
        return seen

    def _look_together(
        self, standpoints: Mapping[str, Standpoint], max_records: int | None
    ) -> dict[str, Seen]:
        wanted = planning.looks(
            standpoints,
            now=self._now(),
            max_records=max_records,
            closed={shard.id for shard in self._listed if shard.closed},
        )
        found = self._threads().map(self._look_at, wanted)
        return {
            look.shard_id: seen
            for look, seen in zip(wanted, found, strict=True)
            if seen is not None
        }

    def _look_at(self, look: Look) -> Seen | None:
        try:
            return self._lookout.look(look, until=self._until)
        except PositionTrimmed:
            self._fail_if_asked(look.shard_id, look.standpoint, _TRIMMED)
            self._trimmed.add((look.shard_id, look.standpoint.position))  # the next plan goes on
            return None
        except ShardNotFound:
            self._list_at = 0.0  # list again: whether that is a gap is decided from a listing
            return None

    # --- what the service says ----------------------------------------------------------------

    def _list(self, *, force: bool = False) -> None:
        now = self._monotonic()
        if not force and now < self._list_at:
            return
        self._listed = self._service.list_shards()
        holes = uncovered(self._listed)
        if holes:
            logger.warning(
                "the listing leaves %d holes in the hash space: listing again", len(holes)
            )
        self._list_at = now + (_LIST_AGAIN_SECONDS if holes else _LIST_SECONDS)

    def _is_listed(self, shard_id: str) -> bool:
        return any(shard.id == shard_id for shard in self._listed)

    def _describe(self) -> StreamDescription:
        if self._described is None or self._monotonic() >= self._describe_at:
            self._described = self._service.describe()
            self._describe_at = self._monotonic() + _DESCRIBE_SECONDS
        return self._described

    def _check_stream(self, offset: Offset) -> datetime:
        described = self._describe()
        if offset.created_at is not None and offset.created_at != _whole_ms(described.created_at):
            raise ShardlineError(
                f"{described.name} was deleted and made again: the checkpoint is of the stream of "
                f"{offset.created_at.isoformat()}, this one is of "
                f"{described.created_at.isoformat()}. Start with a new checkpointLocation"
            )
        return _whole_ms(described.created_at)

    def _retention(self) -> timedelta:
        return timedelta(seconds=self._describe().retention_seconds)

    def _now(self) -> datetime:
        if not self._listed:
            raise StreamNotFound(f"{self._describe().name} has no shards to read yet")
        return self._lookout.now(self._listed[-1].id)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="shardline-look")
        return self._pool


_AGED: Final = "its next records are older than what the stream keeps"
_GONE: Final = "the service no longer has the shard"
_TRIMMED: Final = "the service says that the position is trimmed"


def _describe_gap(shard_id: str, standpoint: Standpoint, reason: str) -> str:
    since = f" of {standpoint.as_of.isoformat()}" if standpoint.as_of else ""
    return f"gap in {shard_id} behind {standpoint.position}{since}: {reason}. Records may be lost."


def _waves(shard_ids: list[str], size: int | None) -> list[list[str]]:
    size = size or len(shard_ids) or 1
    return [shard_ids[at : at + size] for at in range(0, len(shard_ids), size)]


def _whole_ms(time: datetime) -> datetime:
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
