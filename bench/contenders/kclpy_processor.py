"""KCLPY: its record processor as its sample shows it, one process for each shard."""

# mypy: ignore-errors

import sys
import time

from amazon_kclpy import kcl
from amazon_kclpy.v3 import processor
from delivery_log import DeliveryLog

CHECKPOINT_SECONDS = 5


class Recorder(processor.RecordProcessorBase):
    """Writes down what comes, and checkpoints every few seconds."""

    def initialize(self, initialize_input):
        self._log = DeliveryLog(
            sys.argv[1], initialize_input.shard_id, detail=sys.argv[2] == "detail"
        )
        self._checkpointed_at = time.monotonic()

    def process_records(self, process_records_input):
        self._log.write([record.binary_data for record in process_records_input.records])
        if time.monotonic() - self._checkpointed_at > CHECKPOINT_SECONDS:
            process_records_input.checkpointer.checkpoint()
            self._checkpointed_at = time.monotonic()

    def lease_lost(self, lease_lost_input):
        """Nothing to do."""

    def shard_ended(self, shard_ended_input):
        shard_ended_input.checkpointer.checkpoint()

    def shutdown_requested(self, shutdown_requested_input):
        shutdown_requested_input.checkpointer.checkpoint()


kcl.KCLProcess(Recorder()).run()
