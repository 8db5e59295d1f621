"""The mapping between a class and the items of a table."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from shardline.core.positions import plain_time
from shardline.errors import ConfigurationError, ItemMismatch
from shardline.tables.items import Attribute, decode, encode

T = TypeVar("T")

Item = dict[str, Attribute]

_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "BOOL"),
    (int, "N"),
    (float, "N"),
    (Decimal, "N"),
    (str, "S"),
    (bytes, "B"),
    (UUID, "S"),
    (datetime, "S"),
    (date, "S"),
    (time, "S"),
)
_PLAIN_KINDS: Final = frozenset({"S", "BOOL"})
"""Kinds whose values need no decoding."""
_NOUNS: Final = {
    "S": "a text",
    "N": "a number",
    "B": "bytes",
    "BOOL": "a bool",
    "NULL": "null",
    "M": "a map",
    "L": "a list",
    "SS": "a set of texts",
    "NS": "a set of numbers",
    "BS": "a set of bytes",
}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    attribute: str
    annotation: Any
    none_is_absence: bool
    required: bool


class Shape(Generic[T]):
    """Reads and writes the items of a table as instances of a pydantic model or a dataclass."""

    def __init__(self, kind: type[T], table: str) -> None:
        self.kind: Final = kind
        self.table: Final = table
        try:
            # The validator is called directly: the adapter's method costs as much as validating.
            self._validate: Final[Callable[[Any], T]] = TypeAdapter(kind).validator.validate_python
            self._fields = {field.attribute: field for field in _fields_of(kind)}
        except (PydanticUserError, TypeError, NameError) as error:
            why = str(error).partition("\n")[0]
            raise ConfigurationError(
                f"{kind!r} is not a model: pass a shardline.Model, a pydantic model or a dataclass "
                f"({why})"
            ) from error
        self._absent = {
            name: None
            for name, field in self._fields.items()
            if field.required and _allows_none(field.annotation)
        }
        """Read for an attribute that an item lacks: None, where the annotation allows it."""
        self._kinds = {
            name: kinds
            for name, field in self._fields.items()
            if (kinds := kinds_of(field.annotation)) is not None
        }

    def read(self, item: Item, keys: Item) -> T:
        """Return an item as an instance. Raises an `ItemMismatch` that names table, key, field."""
        kinds_by_name = self._kinds
        values: dict[str, Any] = dict(self._absent)
        for name, attribute in item.items():
            ((kind, value),) = attribute.items()
            kinds = kinds_by_name.get(name)
            if kinds is not None and kind not in kinds:
                wanted = " or ".join(sorted(_NOUNS[each] for each in kinds))
                raise self._mismatch(
                    keys, name, f"the item has {_NOUNS.get(kind, kind)}, not {wanted}"
                )
            # No call for the most usual kinds: this runs for every field of every image.
            values[name] = value if kind in _PLAIN_KINDS else decode(attribute)
        try:
            return self._validate(values)
        except ValidationError as error:
            raise self._mismatch(keys, *_first_fault(error)) from error

    def read_keys(self, keys: Item) -> dict[str, Any]:
        """Return key attributes as typed values, by the names of the fields."""
        typed = {}
        for name, attribute in keys.items():
            value = decode(attribute)
            if name in self._fields:
                field_name, validate = self._key_fields[name]
                try:
                    typed[field_name] = validate(value)
                except ValidationError as error:
                    raise self._mismatch(keys, field_name, _first_fault(error)[1]) from error
            else:
                typed[name] = value
        return typed

    def write(self, instance: BaseModel) -> Item:
        """Return an instance as an item. Raises an `ItemMismatch` for a value it cannot store.

        A None whose field defaults to None is left out; any other None is stored as null.
        """
        try:
            values = instance.model_dump(by_alias=True, warnings="error")
        except PydanticSerializationError as error:
            raise ItemMismatch(f"dynamodb://{self.table}: {_one_line(str(error))}") from error
        item = {}
        for name, value in values.items():
            field = self._fields.get(name)
            if value is None and field is not None and field.none_is_absence:
                continue
            item[name] = self._encode(field.name if field is not None else name, value)
        return item

    def write_keys(self, key_names: tuple[str, ...], values: dict[str, Any]) -> Item:
        """Return the key attributes of the item that these values name."""
        if set(values) != set(key_names):
            raise ConfigurationError(
                f"dynamodb://{self.table}: the key is {', '.join(key_names)}, "
                f"not {', '.join(values) or 'nothing'}"
            )
        return {
            self.attribute_of(name): self._encode(name, plain_time(values[name]))
            for name in key_names
        }

    def attribute_of(self, name: str) -> str:
        """Return the attribute that holds a field."""
        return next(field.attribute for field in self._fields.values() if field.name == name)

    def key_kind(self, name: str) -> str:
        """Return the kind (S, N or B) of a key field, or raise a `ConfigurationError`."""
        kinds = self._kinds.get(self.attribute_of(name), frozenset())
        if len(kinds) != 1 or not kinds <= {"S", "N", "B"}:
            raise ConfigurationError(
                f"{self.kind.__name__}.{name} cannot be a key: annotate it as str, bytes, UUID, "
                "datetime or a number, and not optional"
            )
        (kind,) = kinds
        return kind

    @cached_property
    def _key_fields(self) -> dict[str, tuple[str, Callable[[Any], Any]]]:
        """The field name and the validator of each attribute."""
        return {
            attribute: (field.name, TypeAdapter(field.annotation).validator.validate_python)
            for attribute, field in self._fields.items()
        }

    def _encode(self, name: str, value: Any) -> Attribute:
        try:
            return encode(value)
        except ValueError as error:
            raise ItemMismatch(f"dynamodb://{self.table}: {name}: {error}") from error

    def _mismatch(self, keys: Item, field: str, fault: str) -> ItemMismatch:
        named = ", ".join(f"{name}={decode(value)!r}" for name, value in keys.items())
        return ItemMismatch(
            f"dynamodb://{self.table} item {named} does not fit {self.kind.__name__}: "
            f"{field}: {_one_line(fault)}"
        )


def kinds_of(annotation: Any) -> frozenset[str] | None:
    """Return the attribute kinds that hold a plain type; None where pydantic must decide."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kinds_of(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        parts = [kinds_of(part) for part in get_args(annotation)]
        return None if None in parts else frozenset().union(*filter(None, parts))
    if annotation is None or annotation is type(None):
        return frozenset({"NULL"})
    if not isinstance(annotation, type):
        return None
    if issubclass(annotation, Enum):
        parts = [kinds_of(type(member.value)) for member in annotation]
        return None if None in parts else frozenset().union(*filter(None, parts))
    return next(
        (frozenset({kind}) for known, kind in _KINDS if issubclass(annotation, known)), None
    )


def _fields_of(kind: type[Any]) -> list[_Field]:
    if issubclass(kind, BaseModel):
        return [
            _Field(
                name,
                field.serialization_alias or field.alias or name,
                Annotated[field.annotation, *field.metadata]
                if field.metadata
                else field.annotation,
                field.default is None,
                field.is_required(),
            )
            for name, field in kind.model_fields.items()
        ]
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return [
            _Field(name, name, hints[name], False, _is_required(field))
            for name, field in kind.__dataclass_fields__.items()
        ]
    raise TypeError("it has no fields")


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _allows_none(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _allows_none(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return any(_allows_none(part) for part in get_args(annotation))
    return annotation is None or annotation is type(None)


def _first_fault(error: ValidationError) -> tuple[str, str]:
    first, *more = error.errors(include_url=False)
    place = ".".join(str(part) for part in first["loc"]) or "the item"
    fault = f"{first['msg']}, got {first['input']!r:.80}"
    if first["type"] == "missing":
        fault = "the item lacks it: give the field a default, or allow None"
    return place, fault + (f" (and {len(more)} more faults)" if more else "")


def _one_line(text: str) -> str:
    return " ".join(text.split())
