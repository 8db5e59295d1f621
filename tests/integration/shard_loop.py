"""The simplest work on leased shards: one thread that goes round them, page by page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shardline.core.fences import Fence
from shardline.core.positions import After
from shardline.core.shards import SequenceNumber
from shardline.errors import LeaseLost
from shardline.services.cursor import ShardCursor

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    import pyarrow as pa

    from shardline.core.leasing.holdings import Held
    from shardline.leases.coordinator import Coordinator
    from shardline.services.port import StreamService

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 0.25


class ShardLoop:
    """Delivers the records of every shard that a coordinator holds, in the caller's thread."""

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
        self._delivery = 0

    def run(self, stop: Event) -> None:
        """Go round the shards until a stop, then release every lease."""
        self._coordinator.start()
        try:
            while not stop.is_set():
                if not self._go_round():
                    stop.wait(_IDLE_SECONDS)
        finally:
            self._coordinator.leave()

    def _go_round(self) -> bool:
        held = self._coordinator.held()
        self._cursors = {
            i: (epoch, cursor)
            for i, (epoch, cursor) in self._cursors.items()
            if i in held and held[i].epoch == epoch
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
        page = cursor.read(self._page_records)
        if not self._coordinator.holds(shard_id, lease.epoch):
            self._cursors.pop(shard_id)
            return False
        rows = page.records.num_rows
        if rows:
            self._delivery += 1
            self._deliver(shard_id, Fence(lease.epoch, self._delivery), page.records)
            last = SequenceNumber(page.records.column("sequenceNumber")[rows - 1].as_py())
            self._coordinator.checkpoint(shard_id, lease.epoch, After(last), page.service_time)
        if cursor.ended:
            self._coordinator.complete(shard_id, lease.epoch)
            self._cursors.pop(shard_id)
        return cursor.ended or rows > 0
