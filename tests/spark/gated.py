"""A consumer that writes down what it gets, waits where a test wants it to, and may fail.

Its log is the demo's. Beside the log, a file `….gate` holds every delivery back before anything
of it is written down.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import shardline
from shardline.cli.demo.recorder import LOG_VARIABLE, Recorder

if TYPE_CHECKING:
    from shardline.consumer.consumer import ShardBatch
    from shardline.consumer.policies import FailurePolicy


class Gated(Recorder):
    def process(self, batch: ShardBatch) -> None:
        gate = Path(os.environ[LOG_VARIABLE] + ".gate")
        if gate.exists():
            self._write("waiting", batch.shard_id)
        while gate.exists():
            time.sleep(0.05)
        super().process(batch)


class Picky(Recorder):
    """Refuses one record, and stops."""

    failure: ClassVar[FailurePolicy] = shardline.Halt()

    def process(self, batch: ShardBatch) -> None:
        if any(record.data == b"poison" for record in batch.records):
            raise ValueError("cannot read poison")
        super().process(batch)


class Lenient(Picky):
    """Refuses one record, and puts it aside."""

    failure = shardline.DeadLetter(f"file://{os.environ.get('LETTERS', '/nowhere')}", attempts=1)
