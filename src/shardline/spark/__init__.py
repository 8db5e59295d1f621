"""The data pipeline on Spark: sources, planner, reader, and the consumer as a sink."""

from shardline.spark.session import session

__all__ = ["session"]
