"""One worker as a process of its own: `python -m tests.integration.lease_worker …`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import After, ShardEnd
from shardline.leases.address import open_table
from shardline.leases.coordinator import Coordinator
from shardline.services.access import Access
from shardline.services.connection import connect
from tests.integration.shard_loop import ShardLoop

if TYPE_CHECKING:
    import pyarrow as pa

    from shardline.core.fences import Fence
    from shardline.core.leasing.rows import Heartbeat, LeaseRow
    from shardline.leases.port import LeaseTable

LEASE_SECONDS = 3.0


class Journal:
    """A file of lines that is whole up to the moment of a kill."""

    def __init__(self, path: str) -> None:
        self._path = path

    def note(self, what: str, shard_id: str, at: float | None = None, **more: Any) -> None:
        line = json.dumps({"at": at or time.time(), "what": what, "shard": shard_id, **more})
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, line.encode() + b"\n")
        os.close(file)


class NotedTable:
    """A lease table whose writes are noted: asks, takes from who did not give, and checkpoints."""

    def __init__(self, table: LeaseTable, journal: Journal) -> None:
        self._table, self._journal = table, journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        at = time.time()
        self._table.swap_heartbeat(new, expected)
        for shard_id in set(new.asks) - set(expected.asks if expected else ()):
            self._journal.note("asked", shard_id, at)

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        at = time.time()  # before the write: nobody can have acted on it earlier
        given = expected is None or expected.lease_owner is None
        if expected is not None and not given and new.epoch > expected.epoch:
            self._journal.note("stolen", new.shard_id, at, fence=[new.epoch])  # or tried to
        self._table.swap_row(new, expected)
        if expected is None or given or new.epoch > expected.epoch:
            return
        if isinstance(new.checkpoint, After | ShardEnd):
            upto = [new.checkpoint.sequence] if isinstance(new.checkpoint, After) else []
            self._journal.note(
                "checkpointed",
                new.shard_id,
                at,
                fence=[new.epoch],
                keys=[""] * len(upto),
                numbers=[number.text for number in upto],
            )


def main(name: str, stream: str, endpoint_url: str, table: str, table_url: str, log: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    service = connect(f"kinesis://{stream}", Access(endpoint_url=endpoint_url))
    journal = Journal(log)

    def deliver(shard_id: str, fence: Fence, records: pa.RecordBatch) -> None:
        columns = records.select(["partitionKey", "sequenceNumber"]).to_pydict()
        journal.note(
            "delivered",
            shard_id,
            fence=list(fence),
            keys=columns["partitionKey"],
            numbers=columns["sequenceNumber"],
        )

    coordinator = Coordinator(
        NotedTable(open_table(table, Access(endpoint_url=table_url or None)), journal),
        service,
        "processes",
        stream,
        name,
        times=LeaseTimes(lease_seconds=LEASE_SECONDS, checkpoint_seconds=2.0),
    )
    ShardLoop(service, coordinator, deliver, page_records=200).run(stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
