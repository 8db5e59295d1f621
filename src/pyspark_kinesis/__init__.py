"""Lets Spark find `format("kinesis")` by itself: it looks for packages named like this one."""

from shardline.spark.driver.source import KinesisSource as DefaultSource

__all__ = ["DefaultSource"]
