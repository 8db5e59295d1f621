"""A lease table in DynamoDB: one table for all apps, on demand, every write conditional.

Items of one app on one stream share a partition key, so that they are found by one query; the
sort key tells header, heartbeats and leases apart. Both are JSON or prefixed texts, so no two
names can run into each other.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import time
from dataclasses import fields, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore import exceptions as aws

from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.errors import ConfigurationError, ShardlineError
from shardline.leases.port import (
    Conflict,
    RowPage,
    TableUnavailable,
    position_from_text,
    position_to_text,
)
from shardline.services.access import Access, make_client
from shardline.services.failures import read_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

logger = logging.getLogger(__name__)

VERSION: Final = 1

_SPACE: Final = "app_and_stream"
_ITEM: Final = "item"
_HEADER: Final = "header"
_WORKER: Final = "worker "
_SHARD: Final = "shard "
_VERSION_KEY: Final = {_SPACE: "shardline", _ITEM: "version"}
_TIMES: Final = ("stream_created_at", "as_of", "unlisted_since")
_NOT_APPLIED: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
    }
)
"""Refused before anything was done: safe to send again."""
_GET_AT_ONCE: Final = 100  # BatchGetItem takes no more

_to_dynamodb: Final = TypeSerializer().serialize
_from_dynamodb: Final = TypeDeserializer().deserialize


class DynamoLeaseTable:
    """Lease rows in a DynamoDB table that is created when it is missing."""

    def __init__(
        self,
        table_name: str,
        access: Access | None = None,
        *,
        attempts: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = table_name
        # Short time-outs: an answer that comes later than a renewal is due is worth nothing.
        access = replace(access or Access(), connect_timeout_seconds=2, read_timeout_seconds=3)
        self._client = make_client("dynamodb", access)
        self._attempts = attempts
        self._sleep = sleep

    def prepare(self) -> None:
        """Create the table if it is missing, wait until it is active, and check its version."""
        try:
            described = self._client.describe_table(TableName=self._name)["Table"]
        except self._client.exceptions.ResourceNotFoundException:
            self._create()
            described = self._client.describe_table(TableName=self._name)["Table"]
        except (aws.ClientError, aws.BotoCoreError) as error:
            raise self._unavailable(error) from error
        keys = [key["AttributeName"] for key in described["KeySchema"]]
        if keys != [_SPACE, _ITEM]:
            raise ConfigurationError(
                f"the DynamoDB table {self._name!r} is not a lease table of shardline: its key is "
                f"{', '.join(keys)}. Name another table; it is made when it is missing"
            )
        self._require_version()

    def read_header(self, app_name: str, stream_name: str) -> Header | None:
        """Read a header row."""
        item = self._get(_key(app_name, stream_name, _HEADER))
        return _to_header(item) if item else None

    def create_header(self, header: Header, replaces: Header | None = None) -> None:
        """Write a header where there is none, or in place of an older stream's."""
        condition = (
            {"stream_created_at": replaces.stream_created_at.isoformat()} if replaces else None
        )
        key = _key(header.app_name, header.stream_name, _HEADER)
        values = {
            "stream_created_at": header.stream_created_at.isoformat(),
            "start": position_to_text(header.start),
        }
        self._put({**_values(header), **values, **key}, condition, _to_header)

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        """Add one to the stored `moves`, and return the header after it."""
        created_at = header.stream_created_at.isoformat()
        answer = self._write(
            "update_item",
            {"stream_created_at": created_at},
            _to_header,
            Key=_encode(_key(header.app_name, header.stream_name, _HEADER)),
            UpdateExpression="ADD moves :one" + (" SET settled = :settled" if settled else ""),
            values={":one": 1, **({":settled": True} if settled else {})},
            ReturnValues="ALL_NEW",
        )
        return _to_header(_decode(answer["Attributes"]))

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        """Read up to `limit` rows with shard ids above `after`."""
        space = _space(app_name, stream_name)
        start = {} if after is None else {"ExclusiveStartKey": _encode(_shard_key(space, after))}
        answer = self._call(
            "query", **self._under(space, _SHARD), Limit=limit, ConsistentRead=False, **start
        )
        rows = tuple(_to_row(_decode(item)) for item in answer["Items"])
        return RowPage(rows, rows[-1].shard_id if rows and "LastEvaluatedKey" in answer else None)

    def read_rows(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> Mapping[str, LeaseRow]:
        """Read these rows, as far as they exist."""
        space = _space(app_name, stream_name)
        wanted = [_encode(_shard_key(space, shard_id)) for shard_id in dict.fromkeys(shard_ids)]
        found: dict[str, LeaseRow] = {}
        while wanted:
            batch, wanted = wanted[:_GET_AT_ONCE], wanted[_GET_AT_ONCE:]
            answer = self._call(
                "batch_get_item", RequestItems={self._name: {"Keys": batch, "ConsistentRead": True}}
            )
            for item in answer["Responses"].get(self._name, ()):
                row = _to_row(_decode(item))
                found[row.shard_id] = row
            wanted += answer.get("UnprocessedKeys", {}).get(self._name, {}).get("Keys", [])
        return found

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        """Write a row if the stored one is still the expected one."""
        values = {
            "parents": list(new.parents),
            "checkpoint": position_to_text(new.checkpoint),
            **{name: _time_text(getattr(new, name)) for name in _TIMES},
        }
        key = _shard_key(_space(new.app_name, new.stream_name), new.shard_id)
        self._put({**_values(new), **values, **key}, _still(expected), _to_row)

    def delete_row(self, expected: LeaseRow) -> None:
        """Delete a row if it is still the expected one."""
        key = _shard_key(_space(expected.app_name, expected.stream_name), expected.shard_id)
        self._write("delete_item", _still(expected), _to_row, Key=_encode(key))

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        """Read all heartbeats of an app on a stream."""
        beats: list[Heartbeat] = []
        query = self._under(_space(app_name, stream_name), _WORKER)
        while True:
            answer = self._call("query", **query, ConsistentRead=False)
            beats.extend(_to_heartbeat(_decode(item)) for item in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return tuple(beats)
            query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def read_heartbeat(self, app_name: str, stream_name: str, worker: str) -> Heartbeat | None:
        """Read one worker's heartbeat."""
        item = self._get(_key(app_name, stream_name, _WORKER + worker))
        return _to_heartbeat(item) if item else None

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        """Write a heartbeat if the stored one is still the expected one."""
        key = _key(new.app_name, new.stream_name, _WORKER + new.worker)
        condition = {"count": expected.count} if expected else None
        self._put({**_values(new), "asks": list(new.asks), **key}, condition, _to_heartbeat)

    def delete_heartbeat(self, expected: Heartbeat) -> None:
        """Delete a heartbeat if it has not moved."""
        key = _key(expected.app_name, expected.stream_name, _WORKER + expected.worker)
        self._write("delete_item", {"count": expected.count}, _to_heartbeat, Key=_encode(key))

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def _create(self) -> None:
        logger.info("creating the lease table %s in DynamoDB", self._name)
        another_was_faster = self._client.exceptions.ResourceInUseException
        with contextlib.suppress(another_was_faster):
            self._client.create_table(
                TableName=self._name,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[
                    {"AttributeName": name, "AttributeType": "S"} for name in (_SPACE, _ITEM)
                ],
                KeySchema=[
                    {"AttributeName": _SPACE, "KeyType": "HASH"},
                    {"AttributeName": _ITEM, "KeyType": "RANGE"},
                ],
            )
        self._client.get_waiter("table_exists").wait(
            TableName=self._name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
        )

    def _require_version(self) -> None:
        try:
            self._put({**_VERSION_KEY, "version": VERSION}, None, dict)
        except Conflict:
            found = (self._get(_VERSION_KEY) or {}).get("version")
            if found != VERSION:
                raise ConfigurationError(
                    f"the lease table {self._name!r} has version {found}, and this shardline works "
                    f"with version {VERSION}: use the release that made it, or another table"
                ) from None

    def _get(self, key: dict[str, Any]) -> dict[str, Any] | None:
        answer = self._call("get_item", Key=_encode(key), ConsistentRead=True)
        return _decode(answer["Item"]) if "Item" in answer else None

    def _put(
        self,
        item: dict[str, Any],
        condition: dict[str, Any] | None,
        read: Callable[[dict[str, Any]], Any],
    ) -> None:
        self._write("put_item", condition, read, Item=_encode(item))

    def _write(
        self,
        operation: str,
        condition: dict[str, Any] | None,
        read: Callable[[dict[str, Any]], Any],
        values: dict[str, Any] | None = None,
        **parameters: Any,
    ) -> dict[str, Any]:
        """Write on condition that these attributes are so, or that nothing is there (None)."""
        names, values = {}, dict(values or {})
        clauses = []
        for n, (name, value) in enumerate((condition or {}).items()):
            names[f"#c{n}"] = name
            clauses.append(f"#c{n} = :c{n}")
            values[f":c{n}"] = value
        if condition is None:
            names["#c0"] = _ITEM
            clauses.append("attribute_not_exists(#c0)")
        try:
            return self._call(
                operation,
                ConditionExpression=" AND ".join(clauses),
                ExpressionAttributeNames=names,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **({"ExpressionAttributeValues": _encode(values)} if values else {}),
                **parameters,
            )
        except self._client.exceptions.ConditionalCheckFailedException as error:
            stored = error.response.get("Item")
            raise Conflict(read(_decode(stored)) if stored else None) from None

    def _under(self, space: str, prefix: str) -> dict[str, Any]:
        return {
            "KeyConditionExpression": "#s = :s AND begins_with(#i, :i)",
            "ExpressionAttributeNames": {"#s": _SPACE, "#i": _ITEM},
            "ExpressionAttributeValues": _encode({":s": space, ":i": prefix}),
        }

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call, and send again only what was certainly not carried out: throttled requests."""
        if operation != "batch_get_item":
            parameters["TableName"] = self._name
        for attempt in range(self._attempts):
            try:
                answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
            except aws.ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "ConditionalCheckFailedException":
                    raise
                if code not in _NOT_APPLIED or attempt + 1 == self._attempts:
                    raise self._unavailable(error) from error
                delay_seconds = random.random() * 0.05 * 2**attempt  # noqa: S311 - jitter
                logger.warning(
                    "lease table %s throttled %s; again in %.2f s",
                    self._name,
                    operation,
                    delay_seconds,
                )
                self._sleep(delay_seconds)
            except aws.BotoCoreError as error:
                raise self._unavailable(error) from error
            else:
                return answer
        raise AssertionError("the last attempt returns or raises")

    def _unavailable(self, error: Exception) -> ShardlineError:
        """Say what is wrong: with the table for now, or with the way in which it is used."""
        where = f"the lease table dynamodb://{self._name}"
        failure = read_failure(error, where, self._client.meta.endpoint_url)
        return TableUnavailable(str(failure.error)) if failure.passing else failure.error


def _space(app_name: str, stream_name: str) -> str:
    return json.dumps([app_name, stream_name])


def _key(app_name: str, stream_name: str, item: str) -> dict[str, Any]:
    return {_SPACE: _space(app_name, stream_name), _ITEM: item}


def _shard_key(space: str, shard_id: str) -> dict[str, Any]:
    return {_SPACE: space, _ITEM: _SHARD + shard_id}


def _still(expected: LeaseRow | None) -> dict[str, Any] | None:
    if expected is None:
        return None
    return {
        "lease_owner": expected.lease_owner,
        "epoch": expected.epoch,
        "lease_count": expected.lease_count,
    }


def _values(value: LeaseRow | Heartbeat | Header) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _time_text(time_or_none: datetime | None) -> str | None:
    return None if time_or_none is None else time_or_none.isoformat()


def _encode(item: dict[str, Any]) -> dict[str, Any]:
    return {name: _to_dynamodb(value) for name, value in item.items()}


def _decode(item: dict[str, Any]) -> dict[str, Any]:
    return {name: _from_dynamodb(value) for name, value in item.items()}


def _fields_of(kind: type[LeaseRow | Heartbeat | Header], item: dict[str, Any]) -> dict[str, Any]:
    """Pick the fields, numbers as int: DynamoDB gives Decimal."""
    values = {field.name: item.get(field.name) for field in fields(kind)}
    return {
        name: int(value) if isinstance(value, Decimal) else value for name, value in values.items()
    }


def _to_row(item: dict[str, Any]) -> LeaseRow:
    values = _fields_of(LeaseRow, item)
    for name in _TIMES:
        values[name] = values[name] and datetime.fromisoformat(values[name])
    values["parents"] = tuple(values["parents"])
    values["checkpoint"] = position_from_text(values["checkpoint"])
    return LeaseRow(**values)


def _to_heartbeat(item: dict[str, Any]) -> Heartbeat:
    values = _fields_of(Heartbeat, item)
    return Heartbeat(**values | {"asks": tuple(values["asks"])})


def _to_header(item: dict[str, Any]) -> Header:
    values = _fields_of(Header, item)
    return Header(
        **values
        | {
            "stream_created_at": datetime.fromisoformat(values["stream_created_at"]),
            "start": position_from_text(values["start"]),
        }
    )
