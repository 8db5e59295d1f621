"""Lets Spark find `format("shardline-kinesis")`: for where another source has the name "kinesis"."""

from shardline.spark.driver.source import ShardlineKinesisSource as DefaultSource

__all__ = ["DefaultSource"]
