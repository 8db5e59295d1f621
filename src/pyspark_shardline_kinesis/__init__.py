"""Lets Spark find `format("shardline-kinesis")`, where another source is named "kinesis"."""

from shardline.spark.driver.source import ShardlineKinesisSource as DefaultSource

__all__ = ["DefaultSource"]
