"""BatchGetItem, BatchWriteItem, TransactWriteItems and TransactGetItems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.local.dynamodb.database import Write
from shardline.local.dynamodb.placeholders import Placeholders
from shardline.local.dynamodb.requests import (
    ConditionFailed,
    projected,
    read_projection,
    read_units,
    table_name,
    write_units,
)
from shardline.local.dynamodb.values import Item, invalid, normalize_item
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shardline.local.dynamodb.database import Database
    from shardline.local.dynamodb.items import ItemOperations, PreparedWrite

_MOST_WRITES: Final = 25
_MOST_READS: Final = 100
_MOST_ACTIONS: Final = 100
_TOKEN_MS: Final = 10 * 60 * 1000
_DUPLICATES: Final = "Provided list of item keys contains duplicates"


class BatchOperations:
    """The operations on several items at once."""

    def __init__(self, database: Database, items: ItemOperations) -> None:
        self._database = database
        self._items = items
        self._tokens: dict[str, tuple[int, bytes]] = {}

    def batch_get_item(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer BatchGetItem: everything that is found, nothing left unprocessed."""
        asked: dict[str, Any] = request.get("RequestItems") or {}
        if not asked:
            raise invalid("BatchGetItem must have some requests set")
        if sum(len(each.get("Keys", ())) for each in asked.values()) > _MOST_READS:
            raise invalid("Too many items requested for the BatchGetItem call")
        responses: dict[str, list[Item]] = {}
        taken: list[dict[str, Any]] = []
        for name, part in asked.items():
            placeholders = Placeholders(part)
            paths = read_projection(part, placeholders)
            placeholders.check_used()
            table = self._database.active(table_name({"TableName": name}), now_ms)
            keys = [table.schema.read_key(key) for key in part.get("Keys", ())]
            _refuse_duplicates(table.schema.identity(key) for key in keys)
            found = [item for key in keys if (item := table.items.get(key)) is not None]
            responses[name] = [projected(item, paths) for item in found]
            units = read_units(found, consistent=bool(part.get("ConsistentRead")))
            taken.append({"TableName": name, "CapacityUnits": units})
        answer = {"Responses": responses, "UnprocessedKeys": {}}
        return answer | _consumed(request, taken)

    def batch_write_item(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer BatchWriteItem: everything is written, nothing left unprocessed."""
        asked: dict[str, list[Any]] = request.get("RequestItems") or {}
        if not asked:
            raise invalid("BatchWriteItem cannot have a null or no requests set")
        if sum(map(len, asked.values())) > _MOST_WRITES:
            raise invalid("Too many items requested for the BatchWriteItem call")
        writes: list[Write] = []
        for name, part in asked.items():
            if not part:
                raise invalid(
                    f"The batch write request list for a table cannot be null or empty: {name}"
                )
            writes += [self._read_write(name, each, now_ms) for each in part]
        tables = self._database.tables
        _refuse_duplicates((w.table, tables[w.table].schema.identity(w.key)) for w in writes)
        units = {write.table: 0.0 for write in writes}
        for write in writes:
            units[write.table] += write_units(tables[write.table].items.get(write.key), write.new)
        for write in writes:
            self._database.write([write], now_ms)
        taken = [{"TableName": name, "CapacityUnits": each} for name, each in units.items()]
        return {"UnprocessedItems": {}} | _consumed(request, taken)

    def _read_write(self, name: str, asked: Any, now_ms: int) -> Write:
        table = self._database.active(table_name({"TableName": name}), now_ms)
        match asked:
            case {"PutRequest": {"Item": content}, **rest} if not rest:
                item = normalize_item(content)
                table.schema.check_item(item)
                return Write(table.name, table.schema.key_of(item), item)
            case {"DeleteRequest": {"Key": content}, **rest} if not rest:
                return Write(table.name, table.schema.read_key(content), None)
        raise invalid(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of "
            "the supported datatypes"
        )

    # --- transactions -------------------------------------------------------------------------

    def transact_write_items(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer TransactWriteItems: all of it or nothing."""
        actions = _actions(request)
        if self._is_repeated(request, now_ms):
            return {}
        writes: list[Write] = []
        touched: list[Any] = []
        reasons: list[dict[str, Any]] = []
        for action in actions:
            write, identity, reason = self._prepare(action, now_ms)
            touched.append(identity)
            reasons.append(reason)
            if write is not None:
                writes.append(write)
        if len(set(touched)) < len(touched):
            raise invalid("Transaction request cannot include multiple operations on one item")
        if any(reason["Code"] != "None" for reason in reasons):
            codes = ", ".join(reason["Code"] for reason in reasons)
            refusal = Refusal(
                "TransactionCanceledException",
                "Transaction cancelled, please refer cancellation reasons for specific reasons "
                f"[{codes}]",
            )
            refusal.fields = {"CancellationReasons": reasons}
            raise refusal
        self._database.write(writes, now_ms)
        self._remember(request, now_ms)
        return {}

    def transact_get_items(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Answer TransactGetItems."""
        responses = []
        for action in _actions(request):
            asked = action.get("Get", {})
            responses.append(self._items.get_item(asked | {"ConsistentRead": True}, now_ms))
        return {"Responses": responses}

    def _prepare(self, action: Any, now_ms: int) -> tuple[Write | None, Any, dict[str, Any]]:
        """Return the write of one action, the identity of its item, and why it cannot be made."""
        prepare: Callable[[dict[str, Any], int], PreparedWrite] | None = None
        match action:
            case {"Put": asked, **rest} if not rest:
                prepare = self._items.prepare_put
            case {"Update": asked, **rest} if not rest:
                prepare = self._items.prepare_update
            case {"Delete": asked, **rest} if not rest:
                prepare = self._items.prepare_delete
            case {"ConditionCheck": asked, **rest} if not rest:
                if "ConditionExpression" not in asked:
                    raise invalid(
                        "1 validation error detected: Value null at 'transactItems.1.member."
                        "conditionCheck.conditionExpression' failed to satisfy constraint: Member "
                        "must not be null"
                    )
            case _:
                raise invalid("TransactItems can only contain one of Check, Put, Update or Delete")
        schema = self._database.active(table_name(asked), now_ms).schema
        reason: dict[str, Any] = {"Code": "None"}
        write = None
        try:
            if prepare is None:
                self._items.check(asked, now_ms)
            else:
                write = prepare(asked, now_ms).write
        except ConditionFailed as failed:
            reason = {"Code": "ConditionalCheckFailed", "Message": failed.message}
            if failed.item is not None:
                reason["Item"] = failed.item
        key = normalize_item(asked.get("Key", asked.get("Item")))
        return write, (table_name(asked), schema.identity(key)), reason

    def _is_repeated(self, request: dict[str, Any], now_ms: int) -> bool:
        """Return true if this very request was carried out under its token before."""
        token = request.get("ClientRequestToken")
        known = self._tokens.get(token) if token is not None else None
        if known is None or known[0] + _TOKEN_MS <= now_ms:
            return False
        if known[1] != _content(request):
            raise Refusal("IdempotentParameterMismatchException", "")
        return True

    def _remember(self, request: dict[str, Any], now_ms: int) -> None:
        for token in [t for t, (at_ms, _) in self._tokens.items() if at_ms + _TOKEN_MS <= now_ms]:
            del self._tokens[token]
        if request.get("ClientRequestToken") is not None:
            self._tokens[request["ClientRequestToken"]] = now_ms, _content(request)


def _actions(request: dict[str, Any]) -> list[Any]:
    actions: list[Any] = request.get("TransactItems") or []
    if not 1 <= len(actions) <= _MOST_ACTIONS:
        bound = "greater than or equal to 1" if not actions else "less than or equal to 100"
        raise invalid(
            f"1 validation error detected: Value '{actions or []!s:.80}' at 'transactItems' failed "
            f"to satisfy constraint: Member must have length {bound}"
        )
    return actions


def _content(request: dict[str, Any]) -> bytes:
    return msgspec.json.encode(request.get("TransactItems"), order="deterministic")


def _refuse_duplicates(identities: Iterable[Any]) -> None:
    seen = list(identities)
    if len(set(seen)) < len(seen):
        raise invalid(_DUPLICATES)


def _consumed(request: dict[str, Any], taken: list[dict[str, Any]]) -> dict[str, Any]:
    asked = request.get("ReturnConsumedCapacity", "NONE") != "NONE"
    return {"ConsumedCapacity": taken} if asked else {}
