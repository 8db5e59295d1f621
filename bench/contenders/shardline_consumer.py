"""A `ShardConsumer`, with `shardline run --engine process` or, as a program, in Spark tasks."""

# mypy: ignore-errors

import os
import signal
import time
from pathlib import Path

from delivery_log import Arguments, DeliveryLog

import shardline


class Recorder(shardline.ShardConsumer):
    """Looks at the data of every record, as a user does, and writes the delivery down."""

    def __init__(self):
        self.folder = os.environ["BENCH_FOLDER"]
        self.detail = os.environ["BENCH_DETAIL"] == "detail"

    def shard_started(self, shard_id, _fence):
        self.log = DeliveryLog(self.folder, shard_id, detail=self.detail)

    def process(self, batch):
        self.log.write([record.data for record in batch.records])


def main():
    """Run it in Spark until SIGTERM."""
    from shardline.spark import consume, session

    arguments = Arguments()
    spark = session("bench", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    Path(arguments.folder, "ready").write_text(f"{time.time():.6f}")
    running = consume(
        spark,
        Recorder(),
        stream=f"kinesis://{arguments.stream}",
        app=arguments.app,
        name=arguments.worker,
        lease_table=os.environ["BENCH_LEASE_TABLE"],
        region="us-east-1",
        endpoint_url=arguments.endpoint_url,
    )

    def stop(*_):
        running.stop()
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    running.wait()


if __name__ == "__main__":
    main()
