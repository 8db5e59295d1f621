"""The DataFrame source as a streaming query; each batch is one delivery to `foreachBatch`."""

# mypy: ignore-errors

import os
import signal
import time
from pathlib import Path

from delivery_log import STAMP_BYTES, Arguments

from shardline.spark import session

arguments = Arguments()
spark = session("bench", master="local[2]")
spark.sparkContext.setLogLevel("ERROR")
Path(arguments.folder, "ready").write_text(f"{time.time():.6f}")
log = Path(arguments.folder, "all.deliveries").open("a", buffering=1)  # noqa: SIM115


def deliver(rows, _):
    stamp = f"cast(substring(data, 1, {STAMP_BYTES}) as string)"
    row = rows.selectExpr(
        "count(*) n", f"min({stamp}) oldest", f"max({stamp}) newest", "sum(length(data)) size"
    ).collect()[0]
    if row.n:
        log.write(f"{time.time():.6f} {row.n} {row.oldest} {row.newest}\n")


query = (
    spark.readStream.format("kinesis")
    .option("streamName", arguments.stream)
    .option("endpointUrl", arguments.endpoint_url)
    .option("region", "us-east-1")
    .option("startingPosition", "trim_horizon")
    .load()
    .writeStream.foreachBatch(deliver)
    .option("checkpointLocation", str(arguments.folder / "checkpoint"))
    .start()
)


def stop(*_):
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
query.awaitTermination()
