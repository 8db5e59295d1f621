"""The data pipeline on Spark: sources, planner, reader, and the consumer as a sink."""

from shardline.spark.item_schema import item_schema
from shardline.spark.quiet_workers import end_quietly
from shardline.spark.session import session

__all__ = ["item_schema", "session"]

end_quietly()
