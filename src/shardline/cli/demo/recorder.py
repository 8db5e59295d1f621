"""The demo's consumer: records what it was given, so that the checker can judge."""

import json
import os
import time
from pathlib import Path
from typing import Final

from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.core.fences import Fence

LOG_VARIABLE: Final = "SHARDLINE_DEMO_LOG"
"""The file to append to. Spark's own processes inherit the environment."""
HANG_VARIABLE: Final = "SHARDLINE_DEMO_HANG"
"""A file with the id of a shard: while it is there, the consumer of that shard hangs."""


class Recorder(ShardConsumer):
    """Appends one line for each delivery; a line is written whole or not at all."""

    def process(self, batch: ShardBatch) -> None:
        """Write down keys and numbers, in the order in which they came."""
        while _hangs(batch.shard_id):
            time.sleep(0.1)
        columns = batch.arrow.select(["partitionKey", "sequenceNumber"]).to_pydict()
        self._write(
            "delivered",
            batch.shard_id,
            fence=list(batch.fence),
            keys=columns["partitionKey"],
            numbers=columns["sequenceNumber"],
        )

    def shard_started(self, shard_id: str, fence: Fence) -> None:
        """Write down the beginning of a shard."""
        self._write("started", shard_id, fence=list(fence))

    def shard_ended(self, shard_id: str) -> None:
        """Write down the end of a shard."""
        self._write("ended", shard_id)

    def lease_lost(self, shard_id: str) -> None:
        """Write down that the shard is another worker's."""
        self._write("lost", shard_id)

    def _write(self, what: str, shard_id: str, **more: object) -> None:
        line = json.dumps({"at": time.time(), "what": what, "shard": shard_id, **more}) + "\n"
        file = os.open(os.environ[LOG_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)


def _hangs(shard_id: str) -> bool:
    try:
        return Path(os.environ.get(HANG_VARIABLE, "")).read_text().strip() == shard_id
    except OSError:
        return False
