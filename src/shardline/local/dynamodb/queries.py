"""Query and Scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shardline.local.dynamodb.conditions import holds
from shardline.local.dynamodb.key_conditions import names_in, parse_key_condition
from shardline.local.dynamodb.placeholders import Placeholders
from shardline.local.dynamodb.requests import (
    choice,
    consumed,
    limit,
    projected,
    read_condition,
    read_projection,
    read_units,
    refuse_legacy,
    table_name,
)
from shardline.local.dynamodb.values import Item, invalid, normalize_item, size_of_item

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.local.dynamodb.database import Database, StoredTable
    from shardline.local.dynamodb.syntax import Condition, Path

_MOST_PAGE_BYTES: Final = 1024 * 1024
_MOST_SEGMENTS: Final = 1_000_000
_SELECTIONS: Final = (
    *("SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"),
)


class QueryOperations:
    """The operations that read many items."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def query(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer Query."""
        refuse_legacy(request)
        if "KeyConditionExpression" not in request:
            raise invalid(
                "Either the KeyConditions or KeyConditionExpression parameter must be specified in "
                "the request."
            )
        placeholders = Placeholders(request)
        paths = _selected(request, placeholders)
        wanted = read_condition(request, placeholders, "FilterExpression")
        table = self._table(request, now_ms)
        key_condition = parse_key_condition(
            request["KeyConditionExpression"], table.schema, placeholders
        )
        placeholders.check_used()
        for name in table.schema.names:
            if wanted is not None and name in names_in(wanted):
                raise invalid(
                    "Filter Expression can only contain non-primary key attributes: Primary key "
                    f"attribute: {name}"
                )
        after = _start(request, table)
        range_name = table.schema.range_name
        if after is not None and (
            after[table.schema.hash_name] != key_condition.hash_value
            or not key_condition.matches(after.get(range_name or ""))
        ):
            raise invalid("The provided starting key does not match the range key predicate")
        found = (
            item
            for item in table.items.of_hash(
                key_condition.hash_value,
                after,
                forward=request.get("ScanIndexForward") is not False,
            )
            if key_condition.matches(item.get(range_name or ""))
        )
        return _page(request, table, found, wanted, paths, placeholders)

    def scan(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer Scan, of the whole table or of one of several segments."""
        refuse_legacy(request)
        placeholders = Placeholders(request)
        paths = _selected(request, placeholders)
        wanted = read_condition(request, placeholders, "FilterExpression")
        placeholders.check_used()
        segment, segments = _segment(request)
        table = self._table(request, now_ms)
        after = _start(request, table)
        found = table.items.scan(after, segment=segment, segments=segments)
        return _page(request, table, found, wanted, paths, placeholders)

    def _table(self, request: dict[str, Any], now_ms: int) -> StoredTable:
        table = self._database.active(table_name(request), now_ms)
        if "IndexName" in request:
            raise invalid(f"The table does not have the specified index: {request['IndexName']}")
        return table


def _page(
    request: dict[str, Any],
    table: StoredTable,
    items: Iterable[Item],
    wanted: Condition | None,
    paths: tuple[Path, ...] | None,
    placeholders: Placeholders,
) -> dict[str, Any]:
    most = limit(request)
    scanned: list[Item] = []
    size = 0
    more = False
    for item in items:
        scanned.append(item)
        size += size_of_item(item)
        more = len(scanned) == most or size >= _MOST_PAGE_BYTES
        if more:
            break
    found = [i for i in scanned if wanted is None or holds(wanted, i, placeholders.values)]
    answer: dict[str, Any] = {"Count": len(found), "ScannedCount": len(scanned)}
    if request.get("Select") != "COUNT":
        answer["Items"] = [projected(item, paths) for item in found]
    if more:
        answer["LastEvaluatedKey"] = table.schema.key_of(scanned[-1])
    units = read_units(scanned, consistent=bool(request.get("ConsistentRead")))
    return answer | consumed(request, table.name, units)


def _selected(request: dict[str, Any], placeholders: Placeholders) -> tuple[Path, ...] | None:
    paths = read_projection(request, placeholders)
    if "Select" in request:
        select = choice(request, "Select", _SELECTIONS, "ALL_ATTRIBUTES")
        if select == "SPECIFIC_ATTRIBUTES" and paths is None:
            raise invalid(
                "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
                "SPECIFIC_ATTRIBUTES"
            )
        if select != "SPECIFIC_ATTRIBUTES" and paths is not None:
            raise invalid(f"Cannot specify the ProjectionExpression when choosing to get {select}")
    return paths


def _start(request: dict[str, Any], table: StoredTable) -> Item | None:
    if "ExclusiveStartKey" not in request:
        return None
    key = normalize_item(request["ExclusiveStartKey"])
    if len(key) != len(table.schema.names):
        raise invalid(
            "The provided starting key is invalid: Exclusive Start Key must have same size as "
            "table's key schema"
        )
    return table.schema.read_key(key)


def _segment(request: dict[str, Any]) -> tuple[int, int]:
    segment, segments = request.get("Segment"), limit(request, "TotalSegments", _MOST_SEGMENTS)
    if segment is None and segments is None:
        return 0, 1
    if segments is None:
        raise invalid(
            "The TotalSegments parameter is required but was not present in the request when "
            "Segment parameter is present"
        )
    if segment is None:
        raise invalid(
            "The Segment parameter is required but was not present in the request when parameter "
            "TotalSegments is present"
        )
    if not isinstance(segment, int) or not 0 <= segment < segments:
        raise invalid(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
            f"Segment: {segment} is not less than TotalSegments: {segments}"
        )
    return segment, segments
