"""Checks rows that were read from a lease table: a damaged one is an error in one line.

Whoever may write to the table can write anything. A worker that meets such a row ends and says so;
it must not fail again and again at some later place.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Final, TypeVar

from shardline.core.checkpoints import damage_named
from shardline.core.positions import After, AtTime, Latest, ShardEnd, TrimHorizon

if TYPE_CHECKING:
    from shardline.core.leasing.parked_keys import ParkedKey
    from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
    from shardline.core.leasing.runs import Run

    Row = TypeVar("Row", bound=LeaseRow | Heartbeat | Header | Run | ParkedKey)

__all__ = ["checked", "damage_named"]

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "str | None": (str, NoneType),
    "int": (int,),
    "int | None": (int, NoneType),
    "bool": (bool,),
    "datetime": (datetime,),
    "datetime | None": (datetime, NoneType),
    "tuple[str, ...]": (tuple,),
    "Position": (TrimHorizon, Latest, AtTime, After, ShardEnd),
}


def checked(row: Row) -> Row:
    """Return a row whose every field has its type. Use it within `damage_named`."""
    for field in fields(row):
        value = getattr(row, field.name)
        fits = isinstance(value, _KINDS[str(field.type)])
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
