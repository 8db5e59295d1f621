"""A lease table in DynamoDB: one table for all apps, on demand, every write conditional."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from botocore import exceptions as aws

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.errors import ConfigurationError, ShardlineError
from shardline.leases.dynamodb_items import (
    HEADER,
    ITEM,
    PARKED,
    RUN,
    SHARD,
    SPACE,
    VERSION_KEY,
    WORKER,
    Item,
    decode,
    encode,
    item_of,
    key_of,
    key_of_row,
    run_key,
    runs_of,
    shard_key,
    space_of,
    still,
)
from shardline.leases.port import Conflict, RowPage, TableUnavailable
from shardline.leases.stored_rows import AnyRow, Row, row_of
from shardline.services.access import Access, make_client
from shardline.services.failures import read_failure
from shardline.services.log_limits import LogLimit, and_before

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

logger = logging.getLogger(__name__)

VERSION: Final = 1
_NOT_APPLIED: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)
"""Refused before anything was done: safe to send again."""
_GET_AT_ONCE: Final = 100  # BatchGetItem takes no more
_FIRST_PAUSE_SECONDS: Final = 0.05


class DynamoLeaseTable:
    """A `LeaseTable` in DynamoDB. The table is created when it is missing."""

    def __init__(
        self,
        table_name: str,
        access: Access | None = None,
        *,
        attempts: int = 5,
        wait_seconds: float = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = table_name
        # Short time-outs: an answer that comes later than a renewal is due is worth nothing.
        access = replace(
            access or Access(),
            connect_timeout_seconds=min(2, wait_seconds),
            read_timeout_seconds=wait_seconds,
        )
        self._client = make_client("dynamodb", access)
        self._attempts = attempts
        self._sleep = sleep
        self._log_limit = LogLimit()

    @property
    def address(self) -> str:
        return f"dynamodb://{self._name}"

    def prepare(self) -> bool:
        """Create the table if it is missing, wait until it is active, and check its version."""
        created = False
        try:
            described = self._client.describe_table(TableName=self._name)["Table"]
        except self._client.exceptions.ResourceNotFoundException:
            created = self._create()
            described = self._client.describe_table(TableName=self._name)["Table"]
        except (aws.ClientError, aws.BotoCoreError) as error:
            raise self._unavailable(error) from error
        keys = [key["AttributeName"] for key in described["KeySchema"]]
        if keys != [SPACE, ITEM]:
            raise ConfigurationError(
                f"the DynamoDB table {self._name!r} is not a lease table of shardline: its key is "
                f"{', '.join(keys)}. Name another table; it is made when it is missing"
            )
        self._require_version()
        return created

    # --- headers ----------------------------------------------------------------------------

    def read_header(self, app_name: str, stream_name: str) -> Header | None:
        return self._get(Header, key_of(app_name, stream_name, HEADER))

    def create_header(self, header: Header, replaces: Header | None = None) -> None:
        self._put(header, _same_stream(replaces) if replaces else None)

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        update = "ADD moves :one" + (" SET settled = :settled" if settled else "")
        values = {":one": 1, **({":settled": True} if settled else {})}
        return self._update(Header, key_of_row(header), _same_stream(header), update, values)

    # --- lease rows -------------------------------------------------------------------------

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        key = {} if after is None else encode(shard_key(app_name, stream_name, after))
        answer = self._call(
            "query",
            **_under(space_of(app_name, stream_name), SHARD),
            Limit=limit,
            ConsistentRead=False,
            **({"ExclusiveStartKey": key} if key else {}),
        )
        rows = tuple(row_of(LeaseRow, decode(item)) for item in answer["Items"])
        return RowPage(rows, rows[-1].shard_id if rows and "LastEvaluatedKey" in answer else None)

    def read_rows(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> Mapping[str, LeaseRow]:
        ids = dict.fromkeys(shard_ids)
        wanted = [encode(shard_key(app_name, stream_name, shard_id)) for shard_id in ids]
        found: dict[str, LeaseRow] = {}
        unprocessed = 0
        while wanted:
            batch, wanted = wanted[:_GET_AT_ONCE], wanted[_GET_AT_ONCE:]
            asked = {self._name: {"Keys": batch, "ConsistentRead": True}}
            answer = self._call("batch_get_item", RequestItems=asked)
            for item in answer["Responses"].get(self._name, ()):
                row = row_of(LeaseRow, decode(item))
                found[row.shard_id] = row
            left = answer.get("UnprocessedKeys", {}).get(self._name, {}).get("Keys", [])
            if left:
                unprocessed = unprocessed + 1 if len(left) == len(batch) else 0
                if unprocessed >= self._attempts:
                    raise TableUnavailable(f"the lease table {self.address} is throttled")
                self._pause("batch_get_item", unprocessed)
            wanted += left
        return found

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        self._put(new, still(expected))

    def delete_row(self, expected: LeaseRow) -> None:
        self._delete(expected, still(expected))

    # --- heartbeats -------------------------------------------------------------------------

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        return tuple(self._query(Heartbeat, space_of(app_name, stream_name), WORKER))

    def read_heartbeat(self, app_name: str, stream_name: str, worker: str) -> Heartbeat | None:
        return self._get(Heartbeat, key_of(app_name, stream_name, WORKER + worker))

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        self._put(new, {"count": expected.count} if expected else None)

    def delete_heartbeat(self, expected: Heartbeat) -> None:
        self._delete(expected, {"count": expected.count})

    # --- runs -------------------------------------------------------------------------------

    def write_run(self, run: Run) -> Run:
        try:
            self._put(run, None)
        except Conflict:
            update = "ADD renewed :one SET workers = :workers"
            values = {":one": 1, ":workers": run.workers}
            return self._update(Run, key_of_row(run), {"run_id": run.run_id}, update, values)
        return run

    def read_run(self, app_name: str, run_id: str) -> Run | None:
        return self._get(Run, run_key(app_name, run_id))

    def read_runs(self, app_name: str) -> tuple[Run, ...]:
        return tuple(self._query(Run, runs_of(app_name), RUN))

    def stop_run(self, app_name: str, run_id: str) -> Run:
        key, condition = run_key(app_name, run_id), {"run_id": run_id}
        return self._update(Run, key, condition, "SET stopping = :true", {":true": True})

    def delete_run(self, run: Run) -> None:
        self._call("delete_item", Key=encode(key_of_row(run)))

    # --- parked keys ------------------------------------------------------------------------

    def park_key(self, parked: ParkedKey, owner: str) -> None:
        put = {"Put": {"TableName": self._name, "Item": encode(item_of(parked))}}
        self._with_lease(parked, owner, put)

    def read_parked_keys(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> tuple[ParkedKey, ...]:
        """Read the parked keys of these shards: one query, since there are few."""
        space, wanted = space_of(app_name, stream_name), set(shard_ids)
        rows = self._query(ParkedKey, space, PARKED, consistent=True)
        return tuple(row for row in rows if row.shard_id in wanted)

    def unpark_key(self, parked: ParkedKey, owner: str) -> None:
        space, ids = (parked.app_name, parked.stream_name), (parked.shard_id,)
        lease = self.read_rows(*space, ids).get(parked.shard_id)
        if lease is None or (lease.lease_owner, lease.epoch) != (owner, parked.epoch):
            raise Conflict(lease)
        for row in self._query(ParkedKey, space_of(*space), PARKED, consistent=True):
            same = (row.key, row.letter_id) == (parked.key, parked.letter_id)
            if same and row.epoch <= parked.epoch:
                delete = {"TableName": self._name, "Key": encode(key_of_row(row))}
                self._with_lease(parked, owner, {"Delete": delete})

    def close(self) -> None:
        self._client.close()

    # --- calls ------------------------------------------------------------------------------

    def _create(self) -> bool:
        logger.info("creating the lease table %s in DynamoDB", self._name)
        created = False
        with contextlib.suppress(self._client.exceptions.ResourceInUseException):
            self._client.create_table(
                TableName=self._name,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[
                    {"AttributeName": name, "AttributeType": "S"} for name in (SPACE, ITEM)
                ],
                KeySchema=[
                    {"AttributeName": SPACE, "KeyType": "HASH"},
                    {"AttributeName": ITEM, "KeyType": "RANGE"},
                ],
            )
            created = True
        self._client.get_waiter("table_exists").wait(
            TableName=self._name, WaiterConfig={"Delay": 0.5, "MaxAttempts": 240}
        )
        return created

    def _require_version(self) -> None:
        try:
            self._write("put_item", None, None, Item=encode({**VERSION_KEY, "version": VERSION}))
        except Conflict:
            found = (self._get_item(VERSION_KEY) or {}).get("version")
            if found != VERSION:
                raise ConfigurationError(
                    f"the lease table {self._name!r} has version {found}, and this shardline works "
                    f"with version {VERSION}: use the release that made it, or another table"
                ) from None

    def _get(self, kind: type[Row], key: Item) -> Row | None:
        item = self._get_item(key)
        return row_of(kind, item) if item else None

    def _get_item(self, key: Item) -> Item | None:
        answer = self._call("get_item", Key=encode(key), ConsistentRead=True)
        return decode(answer["Item"]) if "Item" in answer else None

    def _query(
        self, kind: type[Row], space: str, prefix: str, *, consistent: bool = False
    ) -> Iterator[Row]:
        query = _under(space, prefix)
        while True:
            answer = self._call("query", **query, ConsistentRead=consistent)
            yield from (row_of(kind, decode(item)) for item in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _put(self, row: AnyRow, condition: Item | None) -> None:
        self._write("put_item", type(row), condition, Item=encode(item_of(row)))

    def _delete(self, row: AnyRow, condition: Item | None) -> None:
        self._write("delete_item", type(row), condition, Key=encode(key_of_row(row)))

    def _update(
        self, kind: type[Row], key: Item, condition: Item, update: str, values: Item
    ) -> Row:
        answer = self._write(
            "update_item",
            kind,
            condition,
            Key=encode(key),
            UpdateExpression=update,
            values=values,
            ReturnValues="ALL_NEW",
        )
        return row_of(kind, self._written(answer))

    def _with_lease(self, parked: ParkedKey, owner: str, action: Item) -> None:
        """Act on condition that the shard's lease is the owner's under an epoch, in one step."""
        key = shard_key(parked.app_name, parked.stream_name, parked.shard_id)
        check = {
            "TableName": self._name,
            "Key": encode(key),
            "ConditionExpression": "lease_owner = :owner AND epoch = :epoch",
            "ExpressionAttributeValues": encode({":owner": owner, ":epoch": parked.epoch}),
        }
        try:
            self._call("transact_write_items", TransactItems=[{"ConditionCheck": check}, action])
        except self._client.exceptions.TransactionCanceledException:
            raise Conflict(self._get(LeaseRow, key)) from None

    def _write(
        self,
        operation: str,
        kind: type[Any] | None,
        condition: Item | None,
        values: Item | None = None,
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
            names["#c0"] = ITEM
            clauses.append("attribute_not_exists(#c0)")
        try:
            return self._call(
                operation,
                ConditionExpression=" AND ".join(clauses),
                ExpressionAttributeNames=names,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **({"ExpressionAttributeValues": encode(values)} if values else {}),
                **parameters,
            )
        except self._client.exceptions.ConditionalCheckFailedException as error:
            stored = error.response.get("Item")
            raise Conflict(row_of(kind, decode(stored)) if kind and stored else None) from None

    def _written(self, answer: dict[str, Any]) -> Item:
        """Return the item that an update left, as its answer has it."""
        if "Attributes" not in answer:
            raise TableUnavailable(f"the lease table {self.address}: no complete answer to a write")
        return decode(answer["Attributes"])

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call, and send again only what was certainly not carried out: throttled requests."""
        if operation not in {"batch_get_item", "transact_write_items"}:
            parameters["TableName"] = self._name
        for attempt in range(self._attempts):
            try:
                answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
            except aws.ClientError as error:
                code = error.response["Error"]["Code"]
                if code in {"ConditionalCheckFailedException", "TransactionCanceledException"}:
                    raise
                if code not in _NOT_APPLIED or attempt + 1 == self._attempts:
                    raise self._unavailable(error) from error
                self._pause(operation, attempt)
            except aws.BotoCoreError as error:
                raise self._unavailable(error) from error
            else:
                return answer
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, operation: str, attempt: int) -> None:
        seconds = random.random() * _FIRST_PAUSE_SECONDS * 2**attempt  # noqa: S311 - jitter
        held_back = self._log_limit.admit(operation, time.monotonic())
        if held_back is not None:
            logger.warning(
                "lease table %s throttled %s; again in %.2f s%s",
                *(self._name, operation, seconds, and_before(held_back)),
            )
        self._sleep(seconds)

    def _unavailable(self, error: Exception) -> ShardlineError:
        """Return what is wrong: with the table for now, or with the way in which it is used."""
        where = f"the lease table {self.address}"
        failure = read_failure(error, where, self._client.meta.endpoint_url)
        return TableUnavailable(str(failure.error)) if failure.passing else failure.error


def _same_stream(header: Header) -> Item:
    return {"stream_created_at": header.stream_created_at.isoformat()}


def _under(space: str, prefix: str) -> dict[str, Any]:
    return {
        "KeyConditionExpression": "#s = :s AND begins_with(#i, :i)",
        "ExpressionAttributeNames": {"#s": SPACE, "#i": ITEM},
        "ExpressionAttributeValues": encode({":s": space, ":i": prefix}),
    }
