"""Reads the shards of a stream side by side and merges their records into one order."""

from __future__ import annotations

import logging
from concurrent.futures import FIRST_COMPLETED, wait
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from shardline.core.gaps import gap_at, may_have_expired
from shardline.core.merging import merge
from shardline.core.positions import AtTime, Latest
from shardline.errors import GapError, ShardNotFound
from shardline.services.listing import gone_shards
from shardline.services.records import position_of
from shardline.streams.inline_executor import InlineExecutor
from shardline.streams.ledger import latest_of
from shardline.streams.pins import find_last
from shardline.streams.shard_buffer import ReadSettings, ShardBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor, Future

    from shardline.services.port import StreamService
    from shardline.streams.gaps import GapPolicy
    from shardline.streams.ledger import Ledger
    from shardline.streams.shard_buffer import FetchedPage

logger = logging.getLogger(__name__)

_LIST_AGAIN_SECONDS: Final = 1.0
"""Between listings while a shard has ended and its children are not listed yet."""

_PINNED_SECONDS: Final = 4 * 3600.0
"""Between heartbeats of a shard whose position can be reopened at any time."""
_ITERATOR_SECONDS: Final = 12 * 60.0
"""Between heartbeats where only an iterator holds the position: DynamoDB's live 15 minutes."""
_KINESIS_ITERATOR_SECONDS: Final = 4 * 60.0
"""The same for Kinesis, whose iterators live 5 minutes."""


class StreamMerger:
    """Reads a stream from the places of a ledger on. `Stream.move_to` makes a new merger."""

    def __init__(
        self,
        service: StreamService,
        ledger: Ledger,
        gap_policy: GapPolicy,
        *,
        retention_seconds: int,
        settings: ReadSettings,
        list_seconds: float,
        executor: Executor,
        clock: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        self.ledger: Final = ledger
        self._service = service
        self._gap_policy = gap_policy
        self._retention = timedelta(seconds=retention_seconds)
        self._settings = settings
        self._list_seconds = list_seconds
        self._clock = clock
        self._pause = pause
        self.executor = executor
        self._buffers: dict[str, ShardBuffer] = {}
        self._childless: set[str] = set()
        self._list_at = clock() + list_seconds
        self._beat_at = clock()
        self._service_time = datetime.min.replace(tzinfo=UTC)
        self._run: list[Any] = []
        self._delivered = 0

    # --- keeping the position -----------------------------------------------------------------

    def open(self) -> None:
        """Open the readable shards. "latest" and times are resolved now, by a first read."""
        self._open_buffers()
        start = (Latest, AtTime)
        self._fetch_now(r for r in self._buffers.values() if isinstance(r.place.position, start))

    def heartbeat(self) -> None:
        """Renew the iterators that are about to expire and that hold a position."""
        now = self._clock()
        if now < self._beat_at:
            return
        alone = _KINESIS_ITERATOR_SECONDS if self._service.finds_times else _ITERATOR_SECONDS
        due_at = {
            buffer: buffer.renewed_at + (alone if buffer.held_by_iterator else _PINNED_SECONDS)
            for buffer in self._buffers.values()
            if buffer.idle
        }
        # Shards that are opened later are not due for minutes.
        self._beat_at = min((at for at in due_at.values() if at > now), default=now + 60)
        self._beat_at = min(self._beat_at, now + 60)
        self._fetch_now(buffer for buffer, at in due_at.items() if at <= now)

    def pin(self) -> None:
        """Find a lasting position for every shard whose position only an iterator holds."""
        for buffer in [r for r in self._buffers.values() if r.held_by_iterator]:
            self._fetch_now([buffer])  # a record that has arrived makes the search unnecessary
            if buffer.held_by_iterator and not buffer.ended:
                found = find_last(
                    self._service,
                    buffer.shard_id,
                    buffer.opened_after,
                    self._settings.quota_of(self._service),
                    self._clock,
                    self._pause,
                )
                # A record that arrived before this read shows in it, and is used instead; unless
                # the page is empty for no reason. Only the service's word excludes that.
                self._fetch_now([buffer])
                if buffer.held_by_iterator:
                    buffer.pin(found.newest if buffer.told_tip else found.certain)
            if buffer.ended and buffer.empty:
                self._drain(buffer.shard_id)
                self._open_buffers()

    def _fetch_now(self, buffers: Iterable[ShardBuffer]) -> None:
        asked = list(buffers)
        self._submit(buffer for buffer in asked if buffer.idle)
        wait([buffer.pending for buffer in asked if buffer.pending is not None])
        self._collect(asked)

    def close(self) -> None:
        """End the subscriptions of the readers; a read under way ends by itself."""
        for buffer in self._buffers.values():
            if buffer.pending is None or buffer.pending.done():
                buffer.close()

    @property
    def at_tip(self) -> bool:
        """True if every shard was read to its tip, and none waits for a parent or to be listed."""
        buffers = self._buffers
        return not self._childless and all(
            shard_id in buffers and buffers[shard_id].at_tip for shard_id in self.ledger.places
        )

    # --- delivery -----------------------------------------------------------------------------

    def next_run(self) -> list[Any]:
        """Return the next records in order, or an empty list if there are none now.

        The records of the run before count as delivered. Shards that hold up others are waited
        for, at most `patience_seconds`; so is the quota of a shard, and then none are there now.
        """
        self._gap_policy.raise_if_failed()
        self.record_delivered(len(self._run))
        deadline = self._clock() + self._settings.patience_seconds
        while True:
            self._refresh_listing()
            self._read_due()
            run = self._merge()
            if run:
                self._run, self._delivered = run, 0
                if not isinstance(self.executor, InlineExecutor):
                    self._submit(self._due())  # the next pages arrive while this run is consumed
                return run
            if not self._close_ended() and not self._wait(deadline) and not self._go_on(deadline):
                return []

    def record_delivered(self, delivered: int) -> None:
        """Move the ledger to the first `delivered` records of the last run."""
        if delivered > self._delivered:
            last = {record.shard_id: record for record in self._run[self._delivered : delivered]}
            for shard_id, record in last.items():
                place = self.ledger.places[shard_id]
                place.position = position_of(record)
                arrived = record.arrived_at
                place.as_of = max(arrived, place.as_of or arrived)
            self._delivered = delivered
        if delivered == len(self._run):
            self._close_ended()

    def _close_ended(self) -> bool:
        """Mark shards that ended and are delivered as drained; return true if there were any."""
        emptied = [buffer for buffer in self._buffers.values() if buffer.empty]
        ended = [buffer.shard_id for buffer in emptied if buffer.ended]
        for buffer in emptied:
            buffer.place.as_of = latest_of(buffer.place.as_of, buffer.read_up_to)
        for shard_id in ended:
            self._drain(shard_id)
        if ended:
            self._open_buffers()
        return bool(ended)

    def _drain(self, shard_id: str) -> None:
        del self._buffers[shard_id]
        self.ledger.drain(shard_id)
        if not self.ledger.children(shard_id):
            self._childless.add(shard_id)
            self._list_at = self._clock()

    def _merge(self) -> list[Any]:
        now = self._clock()
        buffers = list(self._buffers.values())
        merged = merge([buffer.backlog(now) for buffer in buffers])
        taken = [
            buffer.take(count)
            for buffer, count in zip(buffers, merged.counts, strict=True)
            if count
        ]
        if merged.order is None:
            return taken[0] if taken else []
        unordered = list(chain.from_iterable(taken))
        return [unordered[index] for index in merged.order.tolist()]

    # --- reading ------------------------------------------------------------------------------

    def _due(self) -> list[ShardBuffer]:
        now = self._clock()
        buffered = sum(buffer.size_bytes for buffer in self._buffers.values())
        read_ahead = buffered < self._settings.read_ahead_bytes
        return [
            buffer
            for buffer in self._buffers.values()
            if (read_ahead or buffer.empty) and buffer.wants_page(now)
        ]

    def _submit(self, buffers: Iterable[ShardBuffer]) -> None:
        for buffer in buffers:
            buffer.pending = self.executor.submit(buffer.fetch)

    def _read_due(self) -> None:
        due, now = self._due(), self._clock()
        for buffer in due:
            if buffer.empty:
                buffer.start_waiting(now)
        self._submit(due)
        self._collect(self._buffers.values())

    def _wait(self, deadline: float) -> bool:
        """Wait until a shard that holds up others may have more; return false if none may."""
        now = self._clock()
        reads: list[Future[FetchedPage]] = []
        waits: list[float] = []
        for buffer in self._buffers.values():
            if not (buffer.empty and buffer.backlog(now).holds):
                continue
            if buffer.pending is not None and not buffer.pending.done():
                waits.append(buffer.start_waiting(now))
                reads.append(buffer.pending)
            elif (due := buffer.seconds_until_due(now)) is not None and now + due <= deadline:
                waits.append(due)
        if not waits:
            return False
        if reads:
            wait(reads, timeout=min(waits), return_when=FIRST_COMPLETED)
        elif min(waits) > 0:
            self._pause(min(waits))
        return True

    def _go_on(self, deadline: float) -> bool:
        """After the deadline, let the others go on; return true if any has records."""
        now = self._clock()
        if now < deadline:
            return False  # a shard waits for its quota
        for buffer in self._buffers.values():
            if buffer.empty:
                buffer.give_up_waiting(now)
        return any(not buffer.empty for buffer in self._buffers.values())

    def _collect(self, buffers: Iterable[ShardBuffer]) -> None:
        """Buffer every page that has arrived, then raise the first error of the others."""
        errors: list[BaseException] = []
        for buffer in list(buffers):
            if buffer.pending is None or not buffer.has_arrived:
                continue
            answer, buffer.pending = buffer.pending, None
            error = answer.exception()
            try:
                if error is None:
                    fetched = answer.result()
                    if fetched.gap is not None:
                        self._gap_policy.report(fetched.gap)
                    buffer.add(fetched, self._clock())
                    self._service_time = max(self._service_time, fetched.service_time)
                elif isinstance(error, ShardNotFound):
                    self._lose(buffer.shard_id)
                else:
                    errors.append(error)
            except GapError as gap:
                errors.append(gap)
        if errors:
            raise errors[0]

    # --- listing ------------------------------------------------------------------------------

    def _refresh_listing(self) -> None:
        now = self._clock()
        if now < self._list_at:
            return
        self.ledger.update_listing(self._service.list_shards())
        self._childless = {s for s in self._childless if not self.ledger.children(s)}
        self._list_at = now + (
            min(self._list_seconds, _LIST_AGAIN_SECONDS) if self._childless else self._list_seconds
        )
        self._open_buffers()

    def _open_buffers(self) -> None:
        """Open the shards that may be read now. An unlisted parent is looked up by its id."""
        lineage = self.ledger.lineage()
        missing = [s for s in lineage.undiscovered if s not in self._buffers]
        not_found = gone_shards(self._service, missing)
        gone = {shard_id for shard_id in not_found if not self._is_young(shard_id)}
        if gone:
            self.ledger.set_gone(gone)
            lineage = self.ledger.lineage()
        for shard_id in lineage.gaps:
            self._report_expired(shard_id)
        for shard in lineage.readable:
            if shard.id not in self._buffers and shard.id in self.ledger.places:
                self._buffers[shard.id] = ShardBuffer(
                    self._service,
                    shard.id,
                    self.ledger.places[shard.id],
                    self._retention,
                    self._settings,
                    self._clock,
                    self._pause,
                )

    def _lose(self, shard_id: str) -> None:
        """A shard that was read is not found: look again if it is young, else its rest expired."""
        if self._is_young(shard_id):
            del self._buffers[shard_id]
            self._list_at = min(self._list_at, self._clock() + _LIST_AGAIN_SECONDS)
            return
        self._report_expired(shard_id)
        self._open_buffers()

    def _is_young(self, shard_id: str) -> bool:
        """Return true if nothing of a shard can have expired: "not found" is a stale answer."""
        as_of = self.ledger.as_of(shard_id)
        if as_of is None:
            return False
        now = self._service.describe().service_time or datetime.now(UTC)
        return not may_have_expired(as_of, now=now, retention=self._retention)

    def _report_expired(self, shard_id: str) -> None:
        """Report the gap of a shard that has expired, and mark the shard as drained."""
        as_of = self.ledger.as_of(shard_id)
        if as_of is not None:
            gap = gap_at(
                shard_id,
                self.ledger.places[shard_id].position,
                as_of,
                now=max(self._service_time, as_of),
                retention=self._retention,
                reason="the service no longer has the shard",
            )
            self._gap_policy.report(gap)
        else:
            logger.info("%s is gone, before anything of its lineage was read", shard_id)
        self._buffers.pop(shard_id, None)
        self.ledger.drain(shard_id)
