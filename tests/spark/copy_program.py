"""A query that copies a stream into another, each record with its position; a program to kill.

python -m tests.spark.copy_program ENDPOINT SOURCE TARGET CHECKPOINT
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shardline.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start_copy(
    spark: SparkSession, endpoint: str, source: str, target: str, checkpoint: str
) -> StreamingQuery:
    """Start the query that docs/writing.md shows."""
    rows = (
        spark.readStream.format("kinesis")
        .options(streamName=source, endpointUrl=endpoint, startingPosition="trim_horizon")
        .load()
    )
    out = rows.selectExpr(
        "partitionKey",
        "sequenceNumber",
        "subSequenceNumber",
        "to_json(struct(sequenceNumber, subSequenceNumber, cast(data as string) text)) data",
    )
    return (
        out.writeStream.format("kinesis")
        .options(streamName=target, endpointUrl=endpoint)
        .option("dedupeColumns", "sequenceNumber, subSequenceNumber")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    # A task is tried again, as on a cluster.
    start_copy(session("copy", "local[2,4]"), *sys.argv[1:]).awaitTermination()
