"""The option `itemSchema`, written from a model of the table's items."""

from __future__ import annotations

import types
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import BaseModel

_PLAIN: Final[tuple[tuple[type, str], ...]] = (
    (bool, "BOOLEAN"),
    (int, "BIGINT"),
    (float, "DOUBLE"),
    (str, "STRING"),
    (bytes, "BINARY"),
    # Kept as text, which sorts.
    (UUID, "STRING"),
    (datetime, "STRING"),
    (date, "STRING"),
    (time, "STRING"),
)
_ARRAYS: Final = (list, tuple, set, frozenset)
_MOST_DIGITS: Final = 38
_USUAL_DECIMALS: Final = 18


def item_schema(model: type[BaseModel]) -> str:
    """Return what a model's items hold, as the option `itemSchema` wants it.

    Every attribute may be null, because an image may lack it. A Decimal is DECIMAL(38,18) unless
    its field says `max_digits` and `decimal_places`.
    """
    return ", ".join(f"{name} {kind}" for name, kind in _fields(model))


def _fields(model: type[BaseModel]) -> list[tuple[str, str]]:
    fields = []
    for name, field in model.model_fields.items():
        attribute = (field.serialization_alias or field.alias or name).replace("`", "``")
        where = f"{model.__name__}.{name}"
        fields.append((f"`{attribute}`", _ddl(field.annotation, field.metadata, where)))
    return fields


def _ddl(annotation: Any, metadata: list[Any], where: str) -> str:
    """Return the type of a field as SQL writes it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _ddl(arguments[0], [*metadata, *arguments[1:]], where)
    if origin in (Union, types.UnionType):
        parts = [part for part in arguments if part is not type(None)]
        return _only({_ddl(part, metadata, where) for part in parts}, annotation, where)
    if origin is Literal:
        return _only({_ddl(type(each), [], where) for each in arguments}, annotation, where)
    if origin in _ARRAYS:
        parts = [part for part in arguments if part is not Ellipsis]
        return f"ARRAY<{_only({_ddl(part, [], where) for part in parts}, annotation, where)}>"
    if origin is dict:
        return f"MAP<STRING, {_ddl(arguments[1], [], where)}>"
    if isinstance(annotation, type):
        return _ddl_of_class(annotation, metadata, where)
    raise _unknown(annotation, where)


def _ddl_of_class(kind: type[Any], metadata: list[Any], where: str) -> str:
    if issubclass(kind, Enum):
        return _only({_ddl(type(member.value), [], where) for member in kind}, kind, where)
    if issubclass(kind, Decimal):
        digits = _said(metadata, "max_digits", _MOST_DIGITS)
        return f"DECIMAL({digits},{_said(metadata, 'decimal_places', _USUAL_DECIMALS)})"
    if hasattr(kind, "model_fields"):
        return f"STRUCT<{', '.join(f'{name}: {inner}' for name, inner in _fields(kind))}>"
    for known, ddl in _PLAIN:
        if issubclass(kind, known):
            return ddl
    raise _unknown(kind, where)


def _said(metadata: list[Any], name: str, default: int) -> int:
    said = (getattr(each, name, None) for each in metadata)
    return next((each for each in said if each is not None), default)


def _only(found: set[str], annotation: Any, where: str) -> str:
    if len(found) != 1:
        raise _unknown(annotation, where)
    return found.pop()


def _unknown(annotation: Any, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where} is {annotation}, for which Spark has no one type: write itemSchema by hand"
    )
