"""KCLPY: its record processor as its sample shows it, one process for each shard.

The only argument is a folder: what was delivered goes into a file of the shard's name there, and
how many came when into another.
"""

# mypy: ignore-errors

import sys
import time
from pathlib import Path

from amazon_kclpy import kcl
from amazon_kclpy.v3 import processor


class Recorder(processor.RecordProcessorBase):
    """Writes down the number that every record begins with."""

    def initialize(self, initialize_input):
        name = initialize_input.shard_id
        self.numbers = Path(sys.argv[1], name).open("a")  # noqa: SIM115 - as long as the shard
        self.times = Path(sys.argv[1], f"{name}.times").open("a")  # noqa: SIM115
        self._note(0)

    def process_records(self, process_records_input):
        records = process_records_input.records
        data = [record.binary_data for record in records]
        # After the clock has been read: writing down is no part of reading.
        at = time.time()
        for each in data:
            self.numbers.write(each.split(b" ", 1)[0].decode() + "\n")
        self.numbers.flush()
        self._note(len(records), at)

    def lease_lost(self, lease_lost_input):
        """Nothing to do."""

    def shard_ended(self, shard_ended_input):
        shard_ended_input.checkpointer.checkpoint()

    def shutdown_requested(self, shutdown_requested_input):
        """Nothing to do."""

    def _note(self, count, at=None):
        print(time.time() if at is None else at, count, file=self.times, flush=True)


kcl.KCLProcess(Recorder()).run()
