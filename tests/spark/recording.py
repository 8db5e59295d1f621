"""A consumer that appends what it was given to a file of its folder, from any process."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from shardline.cli.demo.workers import Log, report_deliveries
from shardline.consumer.consumer import ShardConsumer

if TYPE_CHECKING:
    from shardline.consumer.consumer import ShardBatch
    from shardline.core.promise import Verdict
    from tests.spark.streams import Stream


class Recording(ShardConsumer):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, batch: ShardBatch) -> None:
        columns = batch.arrow.select(["partitionKey", "sequenceNumber"]).to_pydict()
        line = {
            "at": time.time(), "what": "delivered", "shard": batch.shard_id,
            "fence": list(batch.fence), "keys": columns["partitionKey"],
            "numbers": columns["sequenceNumber"], "pid": os.getpid(),
        }  # fmt: skip
        with Path(self.folder, f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


class Recordings:
    """Everything that was recorded in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def logs(self) -> list[Log]:
        logs = [Log(path, "any") for path in sorted(self.folder.glob("*.jsonl"))]
        for log in logs:
            log.read_on()
        return logs

    def processes(self, since: float = 0.0) -> set[int]:
        """Return the processes that recorded something after a moment."""
        return {
            int(log.path.stem) for log in self.logs() if any(line.at > since for line in log.lines)
        }

    def count(self) -> int:
        """Return how many different records were delivered."""
        lines = (line for log in self.logs() for line in log.lines)
        return len({(line.shard_id, ref.sequence) for line in lines for ref in line.records})

    def judge(self, stream: Stream) -> Verdict:
        """Let the stream's checker judge everything, once."""
        stream.know_shards()
        report_deliveries(stream.checker, self.logs())
        return stream.verdict().require()
