"""PutItem, GetItem, UpdateItem and DeleteItem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shardline.local.dynamodb.database import Database, StoredTable, Write
from shardline.local.dynamodb.parser import parse_update
from shardline.local.dynamodb.paths import read
from shardline.local.dynamodb.placeholders import Placeholders
from shardline.local.dynamodb.requests import (
    check_item,
    choice,
    consumed,
    projected,
    read_condition,
    read_projection,
    read_units,
    refuse_legacy,
    table_name,
    write_units,
)
from shardline.local.dynamodb.updates import check_update, updated
from shardline.local.dynamodb.values import Item, invalid, normalize_item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.local.dynamodb.syntax import Action

_UPDATE_RETURNS: Final = ("ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")
_NO_ACTIONS: Final[tuple[Action, ...]] = ()


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A write whose condition was checked and that is not made yet."""

    write: Write
    old: Item | None
    actions: Sequence[Action] = ()


class ItemOperations:
    """The operations on single items."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get_item(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer GetItem."""
        refuse_legacy(request)
        placeholders = Placeholders(request)
        paths = read_projection(request, placeholders)
        placeholders.check_used()
        table = self._database.active(table_name(request), now_ms)
        item = table.items.get(table.schema.read_key(request.get("Key")))
        found = {} if item is None else {"Item": projected(item, paths)}
        units = read_units(
            [] if item is None else [item], consistent=bool(request.get("ConsistentRead"))
        )
        return found | consumed(request, table.name, units)

    def put_item(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer PutItem."""
        return self._put_or_delete(self.prepare_put(request, now_ms), request, now_ms)

    def delete_item(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer DeleteItem."""
        return self._put_or_delete(self.prepare_delete(request, now_ms), request, now_ms)

    def update_item(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer UpdateItem."""
        returns = choice(request, "ReturnValues", _UPDATE_RETURNS, "NONE")
        prepared = self.prepare_update(request, now_ms)
        self._database.write([prepared.write], now_ms)
        attributes = _returned(prepared, returns)
        units = write_units(prepared.old, prepared.write.new)
        return ({"Attributes": attributes} if attributes else {}) | consumed(
            request, prepared.write.table, units
        )

    # --- writes that are not made yet, for transactions too ----------------------------------

    def prepare_put(self, request: dict[str, Any], now_ms: int) -> PreparedWrite:
        """Check a put and its condition."""
        refuse_legacy(request)
        placeholders = Placeholders(request)
        condition = read_condition(request, placeholders)
        placeholders.check_used()
        new = normalize_item(request.get("Item"))
        table = self._database.active(table_name(request), now_ms)
        table.schema.check_item(new)
        old = table.items.get(new)
        check_item(condition, old, placeholders, request)
        return PreparedWrite(Write(table.name, table.schema.key_of(new), new), old)

    def prepare_delete(self, request: dict[str, Any], now_ms: int) -> PreparedWrite:
        """Check a deletion and its condition."""
        table, key, old = self.check(request, now_ms)
        return PreparedWrite(Write(table.name, key, None), old)

    def check(self, request: dict[str, Any], now_ms: int) -> tuple[StoredTable, Item, Item | None]:
        """Check the condition on the item with a key; return its table, key and value."""
        refuse_legacy(request)
        placeholders = Placeholders(request)
        condition = read_condition(request, placeholders)
        placeholders.check_used()
        table = self._database.active(table_name(request), now_ms)
        key = table.schema.read_key(request.get("Key"))
        item = table.items.get(key)
        check_item(condition, item, placeholders, request)
        return table, key, item

    def prepare_update(self, request: dict[str, Any], now_ms: int) -> PreparedWrite:
        """Check an update and its condition, and compute the item after it."""
        refuse_legacy(request)
        placeholders = Placeholders(request)
        text = request.get("UpdateExpression")
        actions = _NO_ACTIONS if text is None else parse_update(text, placeholders)
        check_update(actions, placeholders.values)
        condition = read_condition(request, placeholders)
        placeholders.check_used()
        table = self._database.active(table_name(request), now_ms)
        key = table.schema.read_key(request.get("Key"))
        for action in actions:
            if action.path.parts[0] in table.schema.names:
                raise invalid(
                    "One or more parameter values were invalid: Cannot update attribute "
                    f"{action.path.parts[0]}. This attribute is part of the key"
                )
        old = table.items.get(key)
        check_item(condition, old, placeholders, request)
        new = updated(key if old is None else old, actions, placeholders.values)
        return PreparedWrite(Write(table.name, key, new), old, actions)

    def _put_or_delete(
        self, prepared: PreparedWrite, request: dict[str, Any], now_ms: int
    ) -> dict[str, Any]:
        returns = request.get("ReturnValues", "NONE")
        if returns not in ("NONE", "ALL_OLD"):
            raise invalid("Return values set to invalid value")
        self._database.write([prepared.write], now_ms)
        old = prepared.old
        attributes = {"Attributes": old} if old is not None and returns == "ALL_OLD" else {}
        units = write_units(old, prepared.write.new)
        return attributes | consumed(request, prepared.write.table, units)


def _returned(prepared: PreparedWrite, returns: str) -> Item | None:
    item = prepared.old if returns.endswith("OLD") else prepared.write.new
    if item is None or returns == "NONE":
        return None
    if returns.startswith("ALL"):
        return item
    names = {
        str(action.path.parts[0])
        for action in prepared.actions
        if read(item, action.path) is not None
    }
    return {name: item[name] for name in names}
