"""Rows of a lease table as plain values, and back: a damaged one is an error in one line.

Whoever may write to the table can write anything. A worker that meets such a row ends and says so;
it must not fail again and again at some later place.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shardline.core.checkpoints import damage_named, position_from_text, position_to_text
from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.core.positions import After, AtTime, Latest, ShardEnd, TrimHorizon

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field

AnyRow = LeaseRow | Heartbeat | Header | Run | ParkedKey
Row = TypeVar("Row", bound=AnyRow)

_NAMES: Final[dict[type, str]] = {
    LeaseRow: "lease row",
    Heartbeat: "heartbeat",
    Header: "header row",
    Run: "row of a run",
    ParkedKey: "parked key",
}
_POSITIONS: Final = (TrimHorizon, Latest, AtTime, After, ShardEnd)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "str | None": (str, NoneType),
    "int": (int,),
    "int | None": (int, NoneType),
    "bool": (bool,),
    "datetime": (datetime,),
    "datetime | None": (datetime, NoneType),
    "tuple[str, ...]": (tuple,),
    "Position": _POSITIONS,
}


def values_of(row: AnyRow) -> dict[str, Any]:
    """Return the fields of a row by name: times and positions as text, tuples as lists."""
    return {field.name: _to_plain(getattr(row, field.name)) for field in fields(row)}


def row_of(kind: type[Row], values: Mapping[Any, Any]) -> Row:
    """Return the row with these values, which may hold more.

    A field that an older release did not write has its default. Tuples may be lists or JSON, and
    integers Decimal, as DynamoDB gives them.
    """
    with damage_named(_NAMES[kind]):
        return checked(kind(**{field.name: _from_plain(field, values) for field in fields(kind)}))


def checked(row: Row) -> Row:
    """Return a row whose every field has its type. Use it within `damage_named`."""
    for field in fields(row):
        value = getattr(row, field.name)
        fits = isinstance(value, _TYPES[str(field.type)])
        match value:
            case bool():
                fits = field.type == "bool"
            case tuple():
                fits = fits and all(isinstance(text, str) for text in value)
            case datetime():
                fits = fits and value.tzinfo is not None
        if not fits:
            raise TypeError(f"{field.name} is {value!r:.40}")
    return row


def _to_plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case tuple():
            return list(value)
    return position_to_text(value) if isinstance(value, _POSITIONS) else value


def _from_plain(field: Field[Any], values: Mapping[Any, Any]) -> Any:
    value = values.get(field.name, None if field.default is MISSING else field.default)
    match field.type, value:
        case "datetime" | "datetime | None", str():
            return datetime.fromisoformat(value)
        case "tuple[str, ...]", str():
            return tuple(json.loads(value))
        case "tuple[str, ...]", list():
            return tuple(value)
        case "Position", str():
            return position_from_text(value)
        case _, Decimal():
            return int(value)
    return value
