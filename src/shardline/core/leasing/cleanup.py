"""What is deleted from a lease table: completed shards that nothing needs, and dead workers."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from shardline.core.leasing.instructions import Delete, Forget, Save
from shardline.core.leasing.rows import marked_unlisted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from shardline.core.leasing.ledger import Ledger
    from shardline.core.leasing.peers import Peers

_ROWS_AT_ONCE: Final = 10


def clean(
    ledger: Ledger, peers: Peers, retention_seconds: float, now: float, today: datetime
) -> Iterator[Save | Delete | Forget]:
    """Return what this worker is on duty to delete, a little at a time."""
    yield from islice(_finished_rows(ledger, peers, retention_seconds, today), _ROWS_AT_ONCE)
    for row in islice(ledger.outdated.values(), _ROWS_AT_ONCE):
        if row.shard_id not in ledger.listing.shards and peers.on_duty(row.shard_id):
            yield Delete(row)
    for beat in peers.buried(now):
        if not ledger.owned.get(beat.worker) and peers.on_duty(beat.worker):
            yield Forget(beat)


def _finished_rows(
    ledger: Ledger, peers: Peers, retention_seconds: float, today: datetime
) -> Iterator[Save | Delete]:
    """Mark rows that nothing needs, delete them a retention period later, or remove the mark."""
    if not ledger.completed:
        return
    unneeded = {row.shard_id for row in ledger.unneeded()}
    for shard_id in sorted(ledger.completed):
        row = ledger.rows[shard_id]
        if not peers.on_duty(shard_id):
            continue
        if shard_id not in unneeded:
            if row.unlisted_since is not None:
                yield Save(marked_unlisted(row, None), row)
        elif row.unlisted_since is None:
            yield Save(marked_unlisted(row, today), row)
        elif (today - row.unlisted_since).total_seconds() > retention_seconds:
            yield Delete(row)
