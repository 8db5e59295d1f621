"""Works on leased shards without Spark: reads, delivers and acknowledges, page by page."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.fences import Fence
from shardline.core.positions import After
from shardline.core.shards import SequenceNumber
from shardline.errors import GapError, LeaseLost, PositionTrimmed
from shardline.services.cursor import ShardCursor

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from threading import Event

    import pyarrow as pa

    from shardline.core.leasing.state import Held
    from shardline.leases.coordinator import Coordinator
    from shardline.services.port import Page, StreamService

logger = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 0.25
"""Between rounds that brought nothing: five reads a second and shard are allowed."""


_SHORTEST_RETENTION: Final = timedelta(hours=24)


class ShardLoop:
    """Delivers the records of every shard that a coordinator holds, in the caller's thread.

    `deliver` gets a shard's id, the fence, and a page of records in order; returning acknowledges
    them. What it raises ends the loop, and nothing past it is checkpointed.
    """

    def __init__(
        self,
        service: StreamService,
        coordinator: Coordinator,
        deliver: Callable[[str, Fence, pa.RecordBatch], None],
        page_records: int = 1_000,
    ) -> None:
        self._service = service
        self._coordinator = coordinator
        self._deliver = deliver
        self._page_records = page_records
        self._cursors: dict[str, tuple[int, ShardCursor]] = {}
        self._batch = 0

    def run(self, stop: Event) -> None:
        """Go round the shards until told to stop, then give every lease back."""
        self._coordinator.start()
        try:
            while not stop.is_set():
                if not self.go_round():
                    stop.wait(_IDLE_SECONDS)
        finally:
            self._coordinator.leave()

    def go_round(self) -> bool:
        """Read one page of every shard that is held; say whether any brought something."""
        held = self._coordinator.held()
        self._cursors = {
            shard_id: (epoch, cursor)
            for shard_id, (epoch, cursor) in self._cursors.items()
            if shard_id in held and held[shard_id].epoch == epoch
        }
        moved = False
        for shard_id, lease in held.items():
            try:
                if lease.finishing:
                    self._cursors.pop(shard_id, None)
                    self._coordinator.finish(shard_id, lease.epoch)
                else:
                    moved = self._read(shard_id, lease) or moved
            except LeaseLost as lost:
                logger.warning("%s", str(lost).splitlines()[0])
                self._cursors.pop(shard_id, None)
        return moved

    def _read(self, shard_id: str, lease: Held) -> bool:
        _, cursor = self._cursors.setdefault(
            shard_id, (lease.epoch, ShardCursor(self._service, shard_id, lease.checkpoint))
        )
        try:
            page = cursor.read(self._page_records)
        except PositionTrimmed as error:
            raise GapError(f"gap in {shard_id} behind {lease.checkpoint}: {error}") from error
        self._require_no_gap(shard_id, lease, page.service_time)
        now = self._coordinator.held().get(shard_id)
        if now is None or now.epoch != lease.epoch:
            self._cursors.pop(shard_id)  # lost while it was read: not delivered, not acknowledged
            return False
        if page.records.num_rows:
            self._batch += 1
            self._deliver(shard_id, Fence(lease.epoch, self._batch), page.records)
            self._acknowledge(shard_id, lease.epoch, page)
        if cursor.ended:
            self._coordinator.complete(shard_id, lease.epoch)
            self._cursors.pop(shard_id)
        return cursor.ended or page.records.num_rows > 0

    def _acknowledge(self, shard_id: str, epoch: int, page: Page) -> None:
        last = page.records.column("sequenceNumber")[page.records.num_rows - 1].as_py()
        behind = timedelta(milliseconds=page.behind_ms or 0)
        as_of = page.service_time - behind if page.behind_ms is not None else None
        self._coordinator.checkpoint(shard_id, epoch, After(SequenceNumber(last)), as_of)

    def _require_no_gap(self, shard_id: str, lease: Held, now: datetime) -> None:
        """Kinesis goes on at its horizon without a word: only the age of the place tells."""
        if lease.as_of is None:
            return
        age = now - lease.as_of
        if age > _SHORTEST_RETENTION and age > timedelta(
            seconds=self._service.describe().retention_seconds
        ):
            raise GapError(
                f"gap in {shard_id} behind {lease.checkpoint}: its next records may be older than "
                f"what the stream keeps, for it was last read on {lease.as_of.isoformat()}"
            )
