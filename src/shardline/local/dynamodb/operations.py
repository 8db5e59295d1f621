"""The embedded DynamoDB as its clients call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from shardline.local.backend import Backend
from shardline.local.dynamodb.batches import BatchOperations
from shardline.local.dynamodb.items import ItemOperations
from shardline.local.dynamodb.queries import QueryOperations
from shardline.local.dynamodb.schemas import TableOperations
from shardline.local.dynamodb.types import typed
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.local.dynamodb.database import Database


class DynamoDBBackend(Backend):
    """DynamoDB over the tables in memory, without any I/O."""

    target_prefix = "DynamoDB_20120810."

    def __init__(self, database: Database) -> None:
        self._database = database
        tables = TableOperations(database, database.streams.arn_prefix)
        items = ItemOperations(database)
        batches = BatchOperations(database, items)
        queries = QueryOperations(database)
        self._operations: dict[str, Callable[[dict[str, Any], int], dict[str, Any]]] = {
            "BatchGetItem": batches.batch_get_item,
            "BatchWriteItem": batches.batch_write_item,
            "CreateTable": tables.create_table,
            "DeleteItem": items.delete_item,
            "DeleteTable": tables.delete_table,
            "DescribeTable": tables.describe_table,
            "DescribeTimeToLive": tables.describe_time_to_live,
            "GetItem": items.get_item,
            "ListTables": tables.list_tables,
            "PutItem": items.put_item,
            "Query": queries.query,
            "Scan": queries.scan,
            "TransactGetItems": batches.transact_get_items,
            "TransactWriteItems": batches.transact_write_items,
            "UpdateItem": items.update_item,
            "UpdateTable": tables.update_table,
            "UpdateTimeToLive": tables.update_time_to_live,
        }

    def call(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Carry out one operation and return the response body as JSON, or raise `Refusal`."""
        act = self._operations.get(operation)
        if act is None:
            raise Refusal(
                "UnknownOperationException",
                f"The embedded service does not support {operation}",
            )
        with self._database.streams.lock:
            self._database.expire(now_ms)
            return msgspec.json.encode(act(typed(operation, request), now_ms))
