"""The calls to a worker about its shards: start, finish, stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.leasing.holdings import AT_WORK, Held, Holding, Stage
from shardline.core.leasing.instructions import Finish, Start, Stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shardline.core.leasing.handover import Handovers
    from shardline.core.leasing.holdings import Holdings
    from shardline.core.leasing.instructions import ToWorker
    from shardline.core.leasing.ledger import Ledger


class WorkerCalls:
    """Compares the calls that a worker got with the rows."""

    def __init__(
        self, owner: str, ledger: Ledger, holdings: Holdings, handovers: Handovers
    ) -> None:
        self._owner = owner
        self._ledger = ledger
        self._holdings = holdings
        self._handovers = handovers

    def due(
        self, shard_ids: Iterable[str], now: float, *, working: bool, leaving: bool
    ) -> list[ToWorker]:
        """Return the calls to the worker about these shards; stops come first."""
        stops: list[ToWorker] = []
        others: list[ToWorker] = []
        for shard_id in shard_ids:
            row = self._ledger.rows.get(shard_id)
            holding = self._holdings.by_shard.get(shard_id)
            epoch = row.epoch if row is not None and row.lease_owner == self._owner else None
            if holding is not None and holding.epoch != epoch:
                stops.extend(self.stop(shard_id, holding))
                self._holdings.drop(shard_id)
                holding = None
            if epoch is None:
                continue
            holding = holding or self._holdings.adopt(shard_id, epoch, now)
            if holding.failed or leaving:
                stops.extend(self.stop(shard_id, holding))
            elif holding.stage is Stage.TAKEN and holding.parked is not None and working:
                self._holdings.start(shard_id, holding)
                others.append(Start(shard_id, holding.epoch, self._lease(shard_id, holding)))
            elif holding.stage is Stage.STARTED and shard_id in self._handovers.giving:
                holding.stage = Stage.FINISHING
                others.append(Finish(shard_id, holding.epoch))
        return [*stops, *others]

    def stop(self, shard_id: str, holding: Holding) -> Iterator[Stop]:
        """End the work under a holding; the worker is called if it had started."""
        self._handovers.giving.pop(shard_id, None)
        was, holding.stage = holding.stage, Stage.STOPPED
        if was in AT_WORK:
            yield Stop(shard_id, holding.epoch)

    def held(self) -> dict[str, Held]:
        """Return the leases that work was started under and may go on under."""
        return {
            shard_id: self._lease(shard_id, holding)
            for shard_id, holding in sorted(self._holdings.by_shard.items())
            if holding.stage in AT_WORK
            and holding.ended_at is None
            and shard_id in self._ledger.rows
        }

    def _lease(self, shard_id: str, holding: Holding) -> Held:
        row = self._ledger.rows[shard_id]
        return Held(
            holding.epoch,
            holding.acknowledged or row.checkpoint,
            holding.as_of or row.as_of,
            finishing=holding.stage in {Stage.FINISHING, Stage.FINISHED},
            parked=holding.parked or frozenset(),
            suspected=row.starts > 1,
            stream_created_at=row.stream_created_at,
        )
