"""Reads the parameters that several operations share, and builds the common parts of answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from shardline.local.dynamodb.conditions import check_condition, holds
from shardline.local.dynamodb.parser import parse_condition, parse_projection
from shardline.local.dynamodb.paths import check_overlaps, project
from shardline.local.dynamodb.values import Item, invalid, size_of_item
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.local.dynamodb.placeholders import Placeholders
    from shardline.local.dynamodb.syntax import Condition, Path

_LEGACY: Final = (
    *("AttributeUpdates", "AttributesToGet", "ConditionalOperator", "Expected", "KeyConditions"),
    *("QueryFilter", "ScanFilter"),
)
_READ_UNIT_BYTES: Final = 4096
_WRITE_UNIT_BYTES: Final = 1024


def table_name(request: dict[str, Any]) -> str:
    """Return the table that a request names; an ARN stands for its table."""
    name = request.get("TableName")
    if not isinstance(name, str):
        raise invalid(
            "1 validation error detected: Value null at 'tableName' failed to satisfy constraint: "
            "Member must not be null"
        )
    return name.rpartition(":table/")[2]


def refuse_legacy(request: dict[str, Any]) -> None:
    """Raise a refusal for parameters from before expressions, which are not supported here."""
    used = [name for name in _LEGACY if name in request]
    if used:
        raise invalid(
            f"The embedded service does not support the legacy parameters {{{', '.join(used)}}}: "
            "use expressions"
        )


def choice(request: dict[str, Any], name: str, allowed: Sequence[str], default: str) -> str:
    """Return a parameter that has one of several values."""
    value = request.get(name, default)
    if value not in allowed:
        member = name[0].lower() + name[1:]
        raise invalid(
            f"1 validation error detected: Value '{value}' at '{member}' failed to satisfy "
            f"constraint: Member must satisfy enum value set: [{', '.join(allowed)}]"
        )
    return str(value)


def limit(request: dict[str, Any], name: str = "Limit", most: int | None = None) -> int | None:
    """Return a limit that is at least 1, or None if there is none."""
    value = request.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refusal("SerializationException", f"{name} must be a whole number")
    if value < 1 or (most is not None and value > most):
        bound = "greater than or equal to 1" if value < 1 else f"less than or equal to {most}"
        raise invalid(
            f"1 validation error detected: Value '{value}' at '{name[0].lower()}{name[1:]}' failed "
            f"to satisfy constraint: Member must have value {bound}"
        )
    return value


def read_condition(
    request: dict[str, Any], placeholders: Placeholders, label: str = "ConditionExpression"
) -> Condition | None:
    """Return the condition or filter of a request, or None if it has none."""
    text = request.get(label)
    if text is None:
        return None
    condition = parse_condition(label, text, placeholders)
    check_condition(label, condition, placeholders.values)
    return condition


def read_projection(request: dict[str, Any], placeholders: Placeholders) -> tuple[Path, ...] | None:
    """Return the paths that a request asks for, or None for whole items."""
    text = request.get("ProjectionExpression")
    if text is None:
        return None
    paths = parse_projection(text, placeholders)
    check_overlaps("ProjectionExpression", paths)
    return paths


def projected(item: Item, paths: tuple[Path, ...] | None) -> Item:
    """Return the part of an item that a request asks for."""
    return item if paths is None else project(item, paths)


class ConditionFailed(Refusal):
    """The condition of a write was not met."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("ConditionalCheckFailedException", "The conditional request failed")
        self.item = item
        if item is not None:
            self.fields = {"Item": item}


def check_item(
    condition: Condition | None,
    item: Item | None,
    placeholders: Placeholders,
    request: dict[str, Any],
) -> None:
    """Raise `ConditionFailed` if the condition is not true of the stored item."""
    if condition is not None and not holds(condition, item or {}, placeholders.values):
        wanted = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
        raise ConditionFailed(item if wanted else None)


def read_units(items: Sequence[Item], *, consistent: bool) -> float:
    """Return the capacity that a read of these items takes."""
    units = max(1, math.ceil(sum(map(size_of_item, items)) / _READ_UNIT_BYTES))
    return float(units) if consistent else units / 2


def write_units(*items: Item | None) -> float:
    """Return the capacity that a write takes: of the larger item, before or after."""
    size = max((size_of_item(item) for item in items if item is not None), default=0)
    return float(max(1, math.ceil(size / _WRITE_UNIT_BYTES)))


def consumed(request: dict[str, Any], table: str, units: float) -> dict[str, Any]:
    """Return the consumed capacity for the answer, if the request asks for it."""
    match request.get("ReturnConsumedCapacity", "NONE"):
        case "NONE":
            return {}
        case "INDEXES":
            amount = {"TableName": table, "CapacityUnits": units, "Table": {"CapacityUnits": units}}
            return {"ConsumedCapacity": amount}
        case _:
            return {"ConsumedCapacity": {"TableName": table, "CapacityUnits": units}}
