"""One worker as a process of its own: `python -m tests.integration.lease_worker …`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from shardline.core.leasing_times import LeaseTimes
from shardline.leases.coordinator import Coordinator
from shardline.leases.loop import ShardLoop
from shardline.leases.opening import open_table
from shardline.services.connecting import connect

if TYPE_CHECKING:
    import pyarrow as pa

    from shardline.core.promise import Fence


def main(name: str, stream: str, endpoint_url: str, table: str, table_url: str, log: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    service = connect(f"kinesis://{stream}", endpoint_url=endpoint_url)

    def deliver(shard_id: str, fence: Fence, records: pa.RecordBatch) -> None:
        columns = records.select(["partitionKey", "sequenceNumber"]).to_pydict()
        line = json.dumps(
            {
                "at": time.time(),
                "what": "delivered",
                "shard": shard_id,
                "fence": list(fence),
                "keys": columns["partitionKey"],
                "numbers": columns["sequenceNumber"],
            }
        )
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, line.encode() + b"\n")
        os.close(file)

    coordinator = Coordinator(
        open_table(table, endpoint_url=table_url or None),
        service,
        "processes",
        stream,
        name,
        times=LeaseTimes(lease_seconds=3.0, checkpoint_seconds=2.0),
    )
    ShardLoop(service, coordinator, deliver, page_records=200).run(stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
