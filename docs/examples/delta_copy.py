"""Keep a Delta table equal to a DynamoDB table: its items first, then every change."""

import uuid
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, get_json_object, length, row_number
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.window import Window

import shardline


class User(shardline.Model):
    class Meta:
        table = "users"
        stream = {"include": ["new", "old"]}

    id: uuid.UUID = shardline.key()
    email: str
    verified: bool = False


COLUMNS = "id STRING, email STRING, verified BOOLEAN"


def copy_users(
    spark: SparkSession, copy: str, checkpoint: str, *, trigger: dict[str, Any], **options: str
) -> StreamingQuery:
    """Start the query that keeps the copy in a folder; `options` are those of the source."""
    spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{copy}` ({COLUMNS}) USING delta")

    def merge(batch: DataFrame, _: int) -> None:
        # All rows of one key in one batch come from one shard, where numbers rise.
        newest = Window.partitionBy("keys").orderBy(
            length("sequenceNumber").desc(), col("sequenceNumber").desc()
        )
        rows = (
            batch.withColumn("place", row_number().over(newest))
            .where("place = 1")
            .select(
                get_json_object("keys", "$.id.S").alias("id"),
                col("newImage.email").alias("email"),
                col("newImage.verified").alias("verified"),
                (col("eventName") == "REMOVE").alias("removed"),
            )
        )
        values = {name: col(f"new.{name}") for name in ("id", "email", "verified")}
        (
            DeltaTable.forPath(batch.sparkSession, copy)
            .alias("old")
            .merge(rows.alias("new"), "old.id = new.id")
            .whenMatchedDelete("new.removed")
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert("NOT new.removed", values=values)
            .execute()
        )

    changes = (
        spark.readStream.format("dynamodb-streams")
        .option("tableName", "users")
        .option("itemSchema", COLUMNS)
        .option("startingPosition", "snapshot")
        .options(**options)
        .load()
    )
    writer = changes.writeStream.foreachBatch(merge).option("checkpointLocation", checkpoint)
    return writer.trigger(**trigger).start()
