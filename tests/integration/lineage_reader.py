"""The smallest consumer that is right: asks the lineage, reads what is readable, keeps a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.fences import Fence
from shardline.core.lineage import Lineage, children_of, trace
from shardline.core.positions import TRIM_HORIZON
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.services.cursor import ShardCursor

if TYPE_CHECKING:
    from shardline.core.shards import Shard
    from shardline.services.port import StreamService


class LineageReader:
    """Reads a Kinesis stream from the horizon on, parents first.

    Pages are small on purpose: a whole shard in one page would be in order by luck.
    """

    def __init__(self, service: StreamService, page_records: int = 20) -> None:
        self.deliveries: list[tuple[str, list[RecordRef]]] = []
        self.drained: set[str] = set()
        self._service = service
        self._page_records = page_records
        self._gone: set[str] = set()
        self._cursors: dict[str, ShardCursor] = {}
        self._listed: dict[str, Shard] = {}
        """Every shard that a listing has shown: the last one may be stale."""

    def lineage(self) -> Lineage:
        """Where every shard stands now."""
        listed = self._service.list_shards()
        self._listed |= {shard.id: shard for shard in listed}
        return trace(
            listed,
            drained=self.drained,
            known=self._cursors.keys(),
            gone=self._gone,
        )

    def read_once(self) -> bool:
        """Read a page of every readable shard; False when all of them were at their tip.

        A drained shard without a child is the mark of a stale listing: there is more to read.
        """
        lineage = self.lineage()
        for shard_id in lineage.undiscovered:
            if not self._service.has_shard(shard_id):
                self._gone.add(shard_id)
        assert lineage.gaps == ()
        listed = [standing.shard for standing in lineage.standings.values() if standing.shard]
        moved = bool(lineage.undiscovered) or not self.drained <= children_of(listed).keys()
        for shard in lineage.readable:
            cursor = self._cursors.setdefault(
                shard.id, ShardCursor(self._service, shard.id, TRIM_HORIZON)
            )
            page = cursor.read(self._page_records)
            columns = page.records.select(["partitionKey", "sequenceNumber"]).to_pydict()
            self.deliveries.append(
                (
                    shard.id,
                    [
                        RecordRef(key, int(sequence))
                        for key, sequence in zip(
                            columns["partitionKey"], columns["sequenceNumber"], strict=True
                        )
                    ],
                )
            )
            if cursor.ended:
                self.drained.add(shard.id)
            moved = moved or cursor.ended or page.records.num_rows > 0 or page.behind_ms != 0
        return moved

    def tell(self, checker: PromiseChecker) -> None:
        """Tell the checker everything in the order in which it was delivered."""
        for shard in self._listed.values():
            checker.shard(shard.id, shard.parents)
        for number, (shard_id, records) in enumerate(self.deliveries):
            checker.delivered(shard_id, Fence(0, number), records)
