"""Typed items: a class whose annotations declare the attributes of a table's items."""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass
from typing import Any, Final, Literal, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from shardline.core.positions import plain_time
from shardline.errors import ConfigurationError

ViewType = Literal["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"]
KeyKind = Literal["HASH", "RANGE"]

_VIEW_TYPES: Final[dict[frozenset[str], ViewType]] = {
    frozenset({"keys"}): "KEYS_ONLY",
    frozenset({"new"}): "NEW_IMAGE",
    frozenset({"old"}): "OLD_IMAGE",
    frozenset({"new", "old"}): "NEW_AND_OLD_IMAGES",
}
_KEY: Final = "shardline_key"
_META_NAMES: Final = ("table", "stream")


def key(*, range: bool = False, **options: Any) -> Any:  # noqa: A002 - DynamoDB's own word
    """Mark a field as the hash key of its table, or with `range=True` as the range key.

    Further options are those of `pydantic.Field`, such as `default_factory` or `alias`.
    """
    return Field(json_schema_extra={_KEY: "RANGE" if range else "HASH"}, **options)


@dataclass(frozen=True, slots=True)
class TableMeta:
    """The table that a model declares."""

    table: str
    view_type: ViewType | None
    """None for a table without a stream."""


@dataclass_transform(kw_only_default=True, field_specifiers=(Field, PrivateAttr, key))
class Model(BaseModel):
    """An item of a table, with its fields by annotation.

        class User(shardline.Model):
            class Meta:
                table = "users"
                stream = {"include": ["new", "old"]}
            id: uuid.UUID = shardline.key()
            email: str

    `Meta.table` is the class's name unless it is given. `include` is one of ["keys"], ["new"],
    ["old"] and ["new", "old"], as a list or a set, which may also stand alone: `stream = {"new"}`.
    Without `Meta.stream` the table has no stream. Everything else is
    pydantic: aliases name the attributes, and `model_config` decides about unknown ones.
    """

    model_config = ConfigDict(validate_assignment=True)

    @model_validator(mode="before")
    @classmethod
    def _read_arrow(cls, data: Any) -> Any:
        """Return the values with times of the package arrow as the standard ones."""
        if "arrow" not in sys.modules or not isinstance(data, dict):
            return data
        return {name: plain_time(value) for name, value in data.items()}

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, plain_time(value))

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        table_meta_of(cls)

    def __str__(self) -> str:
        return repr(self)


def table_meta_of(model: type[Model]) -> TableMeta:
    """Return a model's Meta. Raises a `ConfigurationError` that says what is wrong with it."""
    meta = getattr(model, "Meta", None)
    declared = {name: getattr(meta, name) for name in dir(meta) if not name.startswith("_")}
    declared = {} if meta is None else declared
    for name in declared:
        if name not in _META_NAMES:
            near = difflib.get_close_matches(name, _META_NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "it has table and stream"
            raise ConfigurationError(f"{model.__name__}.Meta: unknown name {name!r}: {hint}")
    table = declared.get("table", model.__name__)
    if not isinstance(table, str):
        raise ConfigurationError(f"{model.__name__}.Meta.table is {table!r}: write a table's name")
    return TableMeta(table, _view_type(model.__name__, declared.get("stream")))


def key_names_of(model: type[Model]) -> tuple[str, ...]:
    """Return a model's key fields: the hash key, then the range key if there is one."""
    marked: dict[KeyKind, list[str]] = {"HASH": [], "RANGE": []}
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and extra.get(_KEY) in marked:
            marked["HASH" if extra[_KEY] == "HASH" else "RANGE"].append(name)
    if len(marked["HASH"]) != 1:
        raise ConfigurationError(
            f"{model.__name__} has {len(marked['HASH'])} hash keys: mark exactly one field with "
            "`= shardline.key()`"
        )
    if len(marked["RANGE"]) > 1:
        raise ConfigurationError(
            f"{model.__name__} has {len(marked['RANGE'])} range keys: a table has at most one"
        )
    return (*marked["HASH"], *marked["RANGE"])


def _view_type(name: str, stream: Any) -> ViewType | None:
    if stream is None:
        return None
    include = stream
    if isinstance(stream, dict):
        include = stream.get("include") if len(stream) == 1 else None
    view_type = None
    if isinstance(include, list | tuple | set | frozenset):
        view_type = _VIEW_TYPES.get(frozenset(map(str, include)))
    if view_type is None:
        raise ConfigurationError(
            f"{name}.Meta.stream is {stream!r}: write {{'include': …}} with ['keys'], ['new'], "
            "['old'] or ['new', 'old'], or one of these alone"
        )
    return view_type
