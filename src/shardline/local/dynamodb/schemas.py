"""CreateTable, DescribeTable, UpdateTable, DeleteTable, ListTables, and times to live."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from shardline.local.dynamodb.requests import choice, limit, table_name
from shardline.local.dynamodb.values import invalid
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.dynamodb.database import BillingMode, Database, StoredTable
    from shardline.local.dynamodb_streams.changes import ViewType

_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{3,255}", re.ASCII)
_BILLING_MODES: Final = ("PROVISIONED", "PAY_PER_REQUEST")
_VIEW_TYPES: Final = ("NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY")
_MOST_LISTED: Final = 100


class TableOperations:
    """The operations on tables as a whole."""

    def __init__(self, database: Database, arn_prefix: str) -> None:
        self._database = database
        self._arn_prefix = arn_prefix

    def create_table(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer CreateTable."""
        name = table_name(request)
        _check_name(name)
        keys = _read_keys(request)
        for unsupported in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
            if request.get(unsupported):
                raise invalid(f"The embedded service does not support {unsupported}")
        mode, throughput = _capacity(request, "PROVISIONED", (0, 0))
        if mode == "PROVISIONED" and "ProvisionedThroughput" not in request:
            raise invalid("No provisioned throughput specified for the table")
        view_type = _read_stream(request.get("StreamSpecification"))
        table = self._database.create(name, keys, mode, throughput, view_type, now_ms)
        return {"TableDescription": self._describe(table, now_ms)}

    def describe_table(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer DescribeTable."""
        table = self._database.find(_named(request), now_ms)
        return {"Table": self._describe(table, now_ms)}

    def update_table(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer UpdateTable: capacity, and streams on and off."""
        table = self._database.find(_named(request), now_ms)
        self._require_active(table, now_ms)
        if "GlobalSecondaryIndexUpdates" in request:
            raise invalid("The embedded service does not support GlobalSecondaryIndexUpdates")
        changes = {"BillingMode", "ProvisionedThroughput", "StreamSpecification"} & set(request)
        ignored = {"DeletionProtectionEnabled", "SSESpecification", "TableClass"} & set(request)
        if not changes and not ignored:
            raise invalid("Nothing to update")
        mode, throughput = _capacity(request, table.billing_mode, table.throughput)
        view_type = table.view_type
        if "StreamSpecification" in request:
            view_type = _read_stream(request["StreamSpecification"])
            if view_type is not None and table.view_type is not None:
                raise invalid("Table already has an enabled stream")
            if view_type is None and table.view_type is None:
                raise invalid("Table has no stream to disable")
        self._database.update(table.name, mode, throughput, view_type, now_ms)
        return {"TableDescription": self._describe(table, now_ms)}

    def delete_table(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer DeleteTable."""
        table = self._database.find(_named(request), now_ms)
        self._require_active(table, now_ms)
        self._database.delete(table.name, now_ms)
        return {"TableDescription": self._describe(table, now_ms)}

    def list_tables(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer ListTables."""
        self._database.drop_deleted(now_ms)
        most = limit(request, most=_MOST_LISTED) or _MOST_LISTED
        after = request.get("ExclusiveStartTableName", "")
        names = sorted(name for name in self._database.tables if name > after)
        answer: dict[str, Any] = {"TableNames": names[:most]}
        if len(names) > most:
            answer["LastEvaluatedTableName"] = names[most - 1]
        return answer

    def describe_time_to_live(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer DescribeTimeToLive."""
        ttl = self._database.find(_named(request), now_ms).ttl
        described = {"TimeToLiveStatus": "DISABLED"}
        if ttl is not None:
            described = {"TimeToLiveStatus": "ENABLED", "AttributeName": ttl.attribute}
        return {"TimeToLiveDescription": described}

    def update_time_to_live(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer UpdateTimeToLive."""
        table = self._database.find(_named(request), now_ms)
        wanted = request.get("TimeToLiveSpecification")
        match wanted:
            case {"Enabled": bool(enabled), "AttributeName": str(attribute)}:
                pass
            case _:
                raise invalid("TimeToLiveSpecification must have Enabled and AttributeName")
        current = None if table.ttl is None else table.ttl.attribute
        if enabled and current is not None and current != attribute:
            raise invalid("TimeToLive is active on a different AttributeName")
        if enabled == (current is not None):
            raise invalid(f"TimeToLive is already {'enabled' if enabled else 'disabled'}")
        self._database.set_ttl(table.name, attribute if enabled else None, now_ms)
        return {"TimeToLiveSpecification": wanted}

    def _require_active(self, table: StoredTable, now_ms: int) -> None:
        status = table.status(now_ms)
        if status != "ACTIVE":
            word = {"CREATING": "created", "DELETING": "deleted"}[status]
            raise Refusal(
                "ResourceInUseException",
                f"Attempt to change a resource which is still in use: Table is being {word}: "
                f"{table.name}",
            )

    def _describe(self, table: StoredTable, now_ms: int) -> dict[str, Any]:
        read_units, written_units = table.throughput
        described: dict[str, Any] = {
            "TableName": table.name,
            "TableArn": self._arn_prefix + table.name,
            "TableId": table.id,
            "TableStatus": table.status(now_ms),
            "CreationDateTime": table.created_ms / 1000,
            "KeySchema": [
                {"AttributeName": name, "KeyType": kind}
                for name, kind in zip(table.schema.names, ("HASH", "RANGE"), strict=False)
            ],
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": table.schema.types[name]}
                for name in table.schema.names
            ],
            "ProvisionedThroughput": {
                "NumberOfDecreasesToday": 0,
                "ReadCapacityUnits": read_units,
                "WriteCapacityUnits": written_units,
            },
            "ItemCount": len(table.items),
            "TableSizeBytes": table.items.size_bytes,
        }
        if table.billing_mode == "PAY_PER_REQUEST":
            described["BillingModeSummary"] = {"BillingMode": table.billing_mode}
        if table.stream_arn is not None:
            described["LatestStreamArn"] = table.stream_arn
            described["LatestStreamLabel"] = table.stream_arn.rpartition("/")[2]
        if table.view_type is not None:
            described["StreamSpecification"] = {
                "StreamEnabled": True,
                "StreamViewType": table.view_type,
            }
        return described


def _named(request: dict[str, Any]) -> str:
    name = table_name(request)
    _check_name(name)
    return name


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise invalid(
            "Invalid table/index name.  Table/index names must be between 3 and 255 characters "
            "long, and may contain only the characters a-z, A-Z, 0-9, '_', '-', and '.'"
        )


def _read_keys(request: dict[str, Any]) -> list[tuple[str, str]]:
    try:
        types = {
            each["AttributeName"]: choice(each, "AttributeType", ("B", "N", "S"), "")
            for each in request["AttributeDefinitions"]
        }
        schema = [(each["KeyType"], each["AttributeName"]) for each in request["KeySchema"]]
    except (KeyError, TypeError):
        raise invalid("KeySchema and AttributeDefinitions must be given") from None
    if [kind for kind, _ in schema] not in (["HASH"], ["HASH", "RANGE"]):
        raise invalid("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
    names = [name for _, name in schema]
    missing = [name for name in names if name not in types]
    if missing:
        raise invalid(
            "One or more parameter values were invalid: Some index key attributes are not defined "
            f"in AttributeDefinitions. Keys: [{', '.join(names)}], AttributeDefinitions: "
            f"[{', '.join(types)}]"
        )
    if len(types) != len(names):
        raise invalid(
            "One or more parameter values were invalid: Number of attributes in KeySchema does not "
            "exactly match number of attributes defined in AttributeDefinitions"
        )
    return [(name, types[name]) for name in names]


def _capacity(
    request: dict[str, Any], mode: BillingMode, current: tuple[int, int]
) -> tuple[BillingMode, tuple[int, int]]:
    wanted = cast("BillingMode", choice(request, "BillingMode", _BILLING_MODES, mode))
    if wanted == "PAY_PER_REQUEST":
        return wanted, (0, 0)
    throughput = request.get("ProvisionedThroughput") or {}
    read_units, written_units = current
    return wanted, (
        int(throughput.get("ReadCapacityUnits", read_units)),
        int(throughput.get("WriteCapacityUnits", written_units)),
    )


def _read_stream(specification: Any) -> ViewType | None:
    match specification:
        case None:
            return None
        case {"StreamEnabled": True, "StreamViewType": view_type}:
            chosen = {"StreamViewType": view_type}
            return cast("ViewType", choice(chosen, "StreamViewType", _VIEW_TYPES, ""))
        case {"StreamEnabled": False, **rest} if not rest:
            return None
        case {"StreamEnabled": False}:
            raise invalid(
                "Invalid StreamViewType: Stream StreamEnabled was false but a StreamViewType was "
                "present."
            )
    raise invalid(
        "Invalid StreamViewType: Stream ViewType must not be null or empty when enabling streams."
    )
