"""The shards of a stream, read side by side: pages are asked for, awaited, and taken in."""

from __future__ import annotations

import logging
from concurrent.futures import wait
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from shardline.core.merging import merge
from shardline.core.positions import After, AtTime, Latest
from shardline.core.shards import SequenceNumber
from shardline.errors import GapError, ShardNotFound
from shardline.streams.gaps import Gap, GapPolicy
from shardline.streams.inline_executor import Here
from shardline.streams.pins import find_last
from shardline.streams.shard_buffer import Pace, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from shardline.services.port import StreamService
    from shardline.streams.ledger import Ledger

logger = logging.getLogger(__name__)

_LIST_AGAIN_SECONDS: Final = 1.0
"""Between listings while a shard has ended and its children are not to be seen yet."""

_PINNED_SECONDS: Final = 4 * 3600.0
"""Between heartbeats of a shard whose position can be opened again at any time."""
_ITERATOR_SECONDS: Final = 12 * 60.0
"""Between heartbeats where only an iterator holds the place: DynamoDB's live 15 minutes."""
_KINESIS_ITERATOR_SECONDS: Final = 4 * 60.0
"""The same for Kinesis, whose iterators live 5 minutes."""


class Reading:
    """One way through a stream, from where a ledger says it begins. A move makes another."""

    def __init__(
        self,
        service: StreamService,
        ledger: Ledger,
        gap_policy: GapPolicy,
        *,
        retention_seconds: int,
        pace: Pace,
        list_seconds: float,
        executor: Executor,
        clock: Callable[[], float],
    ) -> None:
        self.ledger: Final = ledger
        self._service = service
        self._gap_policy = gap_policy
        self._retention = timedelta(seconds=retention_seconds)
        self._pace = pace
        self._list_seconds = list_seconds
        self._clock = clock
        self.executor = executor
        self._readers: dict[str, Reader] = {}
        self._childless: set[str] = set()
        self._list_at = clock() + list_seconds
        self._beat_at = clock()
        self._run: list[Any] = []
        self._settled = 0

    # --- keeping the place --------------------------------------------------------------------

    def open(self) -> None:
        """Begin. What only the service can resolve, "latest" and times, is resolved at once."""
        self._open_readers()
        start = (Latest, AtTime)
        self._fetch_now(r for r in self._readers.values() if isinstance(r.place.position, start))

    def heartbeat(self) -> None:
        """Renew the iterators that are about to expire, where it matters."""
        now = self._clock()
        if now < self._beat_at:
            return
        alone = _KINESIS_ITERATOR_SECONDS if self._service.finds_times else _ITERATOR_SECONDS
        due_at = {
            reader: reader.touched_at + (alone if reader.held_by_iterator else _PINNED_SECONDS)
            for reader in self._readers.values()
            if reader.idle
        }
        # Shards that are opened in the meantime are not due for minutes.
        self._beat_at = min((at for at in due_at.values() if at > now), default=now + 60)
        self._beat_at = min(self._beat_at, now + 60)
        self._fetch_now(reader for reader, at in due_at.items() if at <= now)

    def pin(self) -> None:
        """Find a lasting position for every shard in which only an iterator knows the place."""
        for reader in [r for r in self._readers.values() if r.held_by_iterator]:
            self._fetch_now([reader])  # a record that has come meanwhile spares the search
            if reader.held_by_iterator and not reader.ended:
                found = find_last(self._service, reader.shard_id, reader.service_time)
                # What was written before this second look shows in it, and then counts instead.
                self._fetch_now([reader])
                if reader.held_by_iterator:
                    reader.pin(found)
            if reader.ended and reader.empty:
                self._drain(reader.shard_id)
                self._open_readers()

    def _fetch_now(self, readers: Iterable[Reader]) -> None:
        asked = list(readers)
        self._submit(reader for reader in asked if reader.idle)
        wait([reader.pending for reader in asked if reader.pending is not None])
        self._absorb(asked)

    # --- delivering ---------------------------------------------------------------------------

    def next_run(self) -> list[Any]:
        """Return the next records in order, all of which count as delivered; none if none is there.

        Asks again while a shard that others wait for has more to say, within `patience_seconds`.
        """
        self._gap_policy.check()
        self.settle(len(self._run))
        while True:
            self._look_for_shards()
            self._ask()
            run = self._merge()
            if run:
                self._run, self._settled = run, 0
                if not isinstance(self.executor, Here):
                    self._submit(self._wanting())  # the next pages come while these are consumed
                return run
            if not self._settle_shards() and not self._waiting():
                return []

    def settle(self, delivered: int) -> None:
        """Let the ledger follow what was delivered of the last run."""
        if delivered > self._settled:
            last = {record.shard_id: record for record in self._run[self._settled : delivered]}
            for shard_id, record in last.items():
                place = self.ledger.places[shard_id]
                place.position = After(SequenceNumber(record.sequence_number))
                arrived = record.arrived_at
                place.as_of = max(arrived, place.as_of or arrived)
            self._settled = delivered
        if delivered == len(self._run):
            self._settle_shards()

    def _settle_shards(self) -> bool:
        """Drain the shards that have nothing left; say whether there were any."""
        emptied = [reader for reader in self._readers.values() if reader.empty]
        ended = [reader.shard_id for reader in emptied if reader.ended]
        for reader in emptied:
            if reader.tip_time is not None:
                reader.place.as_of = reader.tip_time
        for shard_id in ended:
            self._drain(shard_id)
        if ended:
            self._open_readers()
        return bool(ended)

    def _drain(self, shard_id: str) -> None:
        del self._readers[shard_id]
        self.ledger.drain(shard_id)
        if not self.ledger.children(shard_id):
            self._childless.add(shard_id)
            self._list_at = self._clock()

    def _merge(self) -> list[Any]:
        now = self._clock()
        readers = list(self._readers.values())
        merged = merge([reader.backlog(now) for reader in readers])
        taken = [
            reader.take(count)
            for reader, count in zip(readers, merged.counts, strict=True)
            if count
        ]
        if merged.order is None:
            return taken[0] if taken else []
        lying = list(chain.from_iterable(taken))
        return [lying[index] for index in merged.order.tolist()]

    # --- asking -------------------------------------------------------------------------------

    def _wanting(self) -> list[Reader]:
        now = self._clock()
        return [reader for reader in self._readers.values() if reader.wants_page(now)]

    def _submit(self, readers: Iterable[Reader]) -> None:
        for reader in readers:
            reader.pending = self.executor.submit(reader.fetch)

    def _waiting(self) -> bool:
        """Say whether a shard that others wait for can be asked, or has been."""
        now = self._clock()
        return any(
            (reader.pending is not None or reader.wants_page(now)) and reader.backlog(now).holds
            for reader in self._readers.values()
        )

    def _ask(self) -> None:
        """Ask every shard that wants a page, and wait for those that hold the others up."""
        wanting = self._wanting()
        now = self._clock()
        under_way = [reader for reader in self._readers.values() if reader.pending is not None]
        seconds = max((reader.wait_from(now) for reader in under_way + wanting), default=0.0)
        self._submit(wanting)
        awaited = [
            reader.pending
            for reader in under_way + wanting
            if reader.pending is not None and reader.backlog(now).holds
        ]
        if awaited:
            wait(awaited, timeout=seconds)
        self._absorb([reader for reader in self._readers.values() if reader.pending is not None])

    def _absorb(self, readers: Iterable[Reader]) -> None:
        """Take in every answer that is there, and only then raise what went wrong elsewhere."""
        errors: list[BaseException] = []
        for reader in readers:
            if reader.pending is None or not reader.pending.done():
                continue
            answer, reader.pending = reader.pending, None
            error = answer.exception()
            try:
                if error is None:
                    fetched = answer.result()
                    if fetched.gap is not None:
                        self._gap_policy.meet(fetched.gap)
                    reader.absorb(fetched, self._clock())
                elif isinstance(error, ShardNotFound):
                    self._lose(reader.shard_id)
                    self._open_readers()
                else:
                    errors.append(error)
            except GapError as gap:
                errors.append(gap)
        if errors:
            raise errors[0]

    # --- shards that come and go --------------------------------------------------------------

    def _look_for_shards(self) -> None:
        now = self._clock()
        if now < self._list_at:
            return
        self.ledger.see(self._service.list_shards())
        self._childless = {s for s in self._childless if not self.ledger.children(s)}
        self._list_at = now + (
            min(self._list_seconds, _LIST_AGAIN_SECONDS) if self._childless else self._list_seconds
        )
        self._open_readers()

    def _open_readers(self) -> None:
        """Open the shards that may be read now. A shard that is not listed is asked for by name."""
        lineage = self.ledger.lineage()
        missing = [s for s in lineage.undiscovered if s not in self._readers]
        for shard_id in missing:
            if not self._service.has_shard(shard_id):
                self.ledger.gone.add(shard_id)
        if not self.ledger.gone.isdisjoint(missing):
            lineage = self.ledger.lineage()
        for shard_id in lineage.gaps:
            self._lose(shard_id)  # frees its children no more than being gone has done already
        now = self._clock()
        for shard in lineage.readable:
            if shard.id not in self._readers and shard.id in self.ledger.places:
                self._readers[shard.id] = Reader(
                    self._service,
                    shard.id,
                    self.ledger.places[shard.id],
                    self._retention,
                    self._pace,
                    now,
                )

    def _lose(self, shard_id: str) -> None:
        """Meet the end of a shard that the service threw away."""
        as_of = self.ledger.as_of(shard_id)
        if as_of is not None:
            self._gap_policy.meet(Gap(shard_id, self.ledger.places[shard_id].position, as_of))
        else:
            logger.info("%s is gone, before anything of its lineage was read", shard_id)
        self._readers.pop(shard_id, None)
        self.ledger.drain(shard_id)
