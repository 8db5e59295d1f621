"""A driver program that can be killed: it copies a stream into parquet, a folder for each batch.

    python -m tests.spark.program MASTER ENDPOINT STREAM CHECKPOINT OUTPUT [KILL_AT]

Writing a batch again replaces its folder, so the sink is idempotent as Spark means it. With
KILL_AT the whole program is killed with that batch written and not yet committed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from shardline.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(
    master: str, endpoint: str, stream: str, checkpoint: str, output: str, kill_at: str = "-1"
) -> None:
    spark = session("program", master, spark__executor__memory="512m")

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{output}/batch={batch_id}")
        sys.stdout.write(f"wrote {batch_id}\n")
        sys.stdout.flush()
        if batch_id == int(kill_at):
            os.killpg(os.getpgrp(), signal.SIGKILL)  # Python, the JVM and its workers

    rows = (
        spark.readStream.format("kinesis")
        .option("streamName", stream)
        .option("endpointUrl", endpoint)
        .option("startingPosition", "trim_horizon")
        .option("maxRecordsPerBatch", "40")
        .load()
    )
    query = (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
