"""Lets Spark find `format("dynamodb-streams")` by itself: it looks for packages named like this."""

from shardline.spark.driver.source import DynamoDBStreamsSource as DefaultSource

__all__ = ["DefaultSource"]
