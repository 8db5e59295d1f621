"""Spark's own limit: how long a batch of a streaming query takes whose source does nothing.

Prints one line of JSON: the seconds of each batch, for a source of Spark's own (in the JVM) and
for the smallest source in Python, which gives one row in each of two partitions.
"""

# mypy: ignore-errors

import json
import sys
import time
from itertools import pairwise

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from shardline.spark import session

WARM_BATCHES = 3
BATCHES = int(sys.argv[1])


class OneRow(DataSource):
    """A stream of one row in each of two partitions, in every batch."""

    @classmethod
    def name(cls):
        return "one-row"

    def schema(self):
        return "value long"

    def streamReader(self, schema):  # noqa: N802, ARG002 - Spark's name
        return OneRowReader()


class OneRowReader(DataSourceStreamReader):
    """Always one batch further."""

    batch = 0

    def initialOffset(self):  # noqa: N802
        return {"batch": 0}

    def latestOffset(self):  # noqa: N802
        self.batch += 1
        return {"batch": self.batch}

    def partitions(self, start, end):  # noqa: ARG002
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition):
        yield (partition.value,)


def seconds_of_batches(frame):
    """Run a query; return how long each batch took after the first ones."""
    ends = []

    def deliver(rows, _):
        rows.selectExpr("count(*) n", "max(value)").collect()
        ends.append(time.monotonic())

    query = frame.writeStream.foreachBatch(deliver).start()
    while len(ends) <= WARM_BATCHES + BATCHES and query.isActive:
        time.sleep(0.05)
    query.stop()
    if query.exception():
        raise query.exception()
    kept = ends[WARM_BATCHES : WARM_BATCHES + BATCHES + 1]
    return [after - before for before, after in pairwise(kept)]


spark = session("bench", master="local[2]")
spark.sparkContext.setLogLevel("OFF")
spark.dataSource.register(OneRow)
rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2)
print(
    json.dumps(
        {
            "Spark's own source": seconds_of_batches(rates.load()),
            "the smallest source in Python": seconds_of_batches(
                spark.readStream.format("one-row").load()
            ),
        }
    )
)
