"""All tables of the embedded DynamoDB: every change of an item goes through `write`.

A change is applied to the items, put into the table's stream and noted in the journal, in this
order and under one lock. Replaying the journal makes the same changes at the same times.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from shardline.local.dynamodb.table import Schema, StoredItems, TimeToLive
from shardline.local.dynamodb.values import MOST_ITEM_BYTES, Item, invalid, size_of_item
from shardline.local.refusals import Refusal
from shardline.local.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shardline.local.dynamodb_streams.changes import ViewType
    from shardline.local.dynamodb_streams.control import Tables

BillingMode = Literal["PROVISIONED", "PAY_PER_REQUEST"]


class Write(NamedTuple):
    """One change of an item."""

    table: str
    key: Item
    new: Item | None
    """None to delete it."""
    by_ttl: bool = False


@dataclass
class StoredTable:
    """One table with everything in it."""

    name: str
    schema: Schema
    id: str
    billing_mode: BillingMode
    throughput: tuple[int, int]
    created_ms: int
    active_ms: int
    """From when on the table is ACTIVE: it is CREATING before."""
    items: StoredItems
    view_type: ViewType | None = None
    """What its stream shows; None while it has no enabled stream."""
    stream_arn: str | None = None
    """The newest stream, which stays named when it was disabled."""
    deleted_ms: int | None = None
    """When a table that is DELETING is gone."""
    ttl: TimeToLive | None = None

    def status(self, now_ms: int) -> str:
        """Return the service's word for the table's state."""
        if self.deleted_ms is not None:
            return "DELETING"
        return "ACTIVE" if now_ms >= self.active_ms else "CREATING"


class Database:
    """The tables by name. The lock of the streams guards both."""

    def __init__(self, streams: Tables, settings: Settings | None = None) -> None:
        self.streams: Final = streams
        self.settings: Final = settings or Settings()
        self.tables: Final[dict[str, StoredTable]] = {}
        streams.before_call = self.expire
        self.on_change: Callable[[int, Any], None] | None = None
        """Called with the time and content of every change, to be replayed."""

    # --- finding ------------------------------------------------------------------------------

    def find(self, name: str, now_ms: int) -> StoredTable:
        """Return a table, CREATING and DELETING ones included. Raises a refusal if it is gone."""
        self.drop_deleted(now_ms)
        if name not in self.tables:
            raise Refusal(
                "ResourceNotFoundException",
                f"Requested resource not found: Table: {name} not found",
            )
        return self.tables[name]

    def active(self, name: str, now_ms: int) -> StoredTable:
        """Return a table whose items can be used. Raises a refusal if it is not ACTIVE."""
        self.drop_deleted(now_ms)
        table = self.tables.get(name)
        if table is None or table.status(now_ms) != "ACTIVE":
            raise Refusal("ResourceNotFoundException", "Requested resource not found")
        return table

    # --- items --------------------------------------------------------------------------------

    def write(self, writes: Sequence[Write], now_ms: int) -> None:
        """Apply changes, all of them or none; those that change nothing leave no trace."""
        for write in writes:
            if write.new is not None and size_of_item(write.new) > MOST_ITEM_BYTES:
                raise invalid("Item size has exceeded the maximum allowed size")
        effective = [w for w in writes if self.tables[w.table].items.get(w.key) != w.new]
        with self._unrecorded_streams(now_ms):
            for write in effective:
                self._apply(write)
        if effective:
            self._record(now_ms, "write", *[tuple(write) for write in effective])

    def expire(self, now_ms: int) -> None:
        """Delete the items whose time to live is over, as the service does in its own name."""
        expired = [
            Write(table.name, table.schema.key_of(item), None, by_ttl=True)
            for table in self.tables.values()
            if table.ttl is not None and table.deleted_ms is None
            for item in table.ttl.expired(table.items, now_ms)
        ]
        if expired:
            self.write(expired, now_ms)

    def _apply(self, write: Write) -> None:
        table = self.tables[write.table]
        old = table.items.get(write.key)
        if write.new is not None:
            table.items.put(write.new)
            if table.ttl is not None:
                table.ttl.note(write.new)
        elif old is not None:
            table.items.delete(write.key)
        if table.view_type is not None:
            self.streams.put_change(
                table.name, write.key, old=old, new=write.new, by_ttl=write.by_ttl
            )

    # --- tables -------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        keys: Sequence[tuple[str, str]],
        billing_mode: BillingMode,
        throughput: tuple[int, int],
        view_type: ViewType | None,
        now_ms: int,
    ) -> StoredTable:
        """Create a table, with a stream if a view type is given; `keys` are names and types."""
        self.drop_deleted(now_ms)
        if name in self.tables:
            raise Refusal("ResourceInUseException", f"Table already exists: {name}")
        names = [each for each, _ in keys]
        schema = Schema(names[0], names[1] if len(names) > 1 else None, dict(keys))
        table = StoredTable(
            name=name,
            schema=schema,
            id=str(uuid5(NAMESPACE_URL, f"{name}/{now_ms}")),
            billing_mode=billing_mode,
            throughput=(throughput[0], throughput[1]),
            created_ms=now_ms,
            active_ms=now_ms + self.settings.status_delay_ms,
            items=StoredItems(schema),
        )
        if view_type is not None:
            self._enable_stream(table, view_type, now_ms)
        self.tables[name] = table
        self._record(now_ms, "create", name, keys, billing_mode, throughput, view_type)
        return table

    def update(
        self,
        name: str,
        billing_mode: BillingMode,
        throughput: tuple[int, int],
        view_type: ViewType | None,
        now_ms: int,
    ) -> None:
        """Change a table's capacity, and switch its stream on or off."""
        table = self.tables[name]
        table.billing_mode, table.throughput = billing_mode, (throughput[0], throughput[1])
        if view_type is None and table.view_type is not None:
            self._disable_stream(table, now_ms)
        elif view_type is not None and table.view_type is None:
            self._enable_stream(table, view_type, now_ms)
        self._record(now_ms, "update", name, billing_mode, throughput, view_type)

    def delete(self, name: str, now_ms: int) -> None:
        """Delete a table. Its stream stays readable for as long as it keeps records."""
        table = self.tables[name]
        if table.view_type is not None:
            self._disable_stream(table, now_ms)
        table.deleted_ms = now_ms + self.settings.status_delay_ms
        self._record(now_ms, "delete", name)

    def drop_deleted(self, now_ms: int) -> None:
        """Forget the tables whose deletion is over."""
        for table in [t for t in self.tables.values() if t.deleted_ms is not None]:
            if now_ms >= (table.deleted_ms or 0):
                del self.tables[table.name]

    def set_ttl(self, name: str, attribute: str | None, now_ms: int) -> None:
        """Expire the items of a table by an attribute, or by none."""
        table = self.tables[name]
        table.ttl = None if attribute is None else TimeToLive(attribute, table.items)
        self._record(now_ms, "set_ttl", name, attribute)

    def _enable_stream(self, table: StoredTable, view_type: ViewType, now_ms: int) -> None:
        schema = table.schema
        with self._unrecorded_streams(now_ms):
            created = self.streams.create_table(
                table.name, view_type, hash_key=schema.hash_name, range_key=schema.range_name
            )
        table.view_type, table.stream_arn = view_type, created.stream_arn

    def _disable_stream(self, table: StoredTable, now_ms: int) -> None:
        with self._unrecorded_streams(now_ms):
            self.streams.disable_stream(table.name)
        table.view_type = None

    # --- the journal --------------------------------------------------------------------------

    def replay(self, content: Any, at_ms: int) -> None:
        """Make a change again that was noted, at its time."""
        method, arguments, status_delay_ms = content
        on_change, usual_delay_ms = self.on_change, self.settings.status_delay_ms
        self.on_change, self.settings.status_delay_ms = None, status_delay_ms
        try:
            self.drop_deleted(at_ms)
            if method == "write":
                self.write([Write(*write) for write in arguments], at_ms)
            else:
                getattr(self, method)(*arguments, at_ms)
        finally:
            self.on_change, self.settings.status_delay_ms = on_change, usual_delay_ms

    def _record(self, now_ms: int, method: str, *arguments: Any) -> None:
        if self.on_change is not None:
            self.on_change(now_ms, (method, arguments, self.settings.status_delay_ms))

    @contextmanager
    def _unrecorded_streams(self, now_ms: int) -> Iterator[None]:
        """Change the streams at this time, without an entry of their own in the journal."""
        with self.streams.at(now_ms):
            on_change, self.streams.on_change = self.streams.on_change, None
            try:
                yield
            finally:
                self.streams.on_change = on_change
