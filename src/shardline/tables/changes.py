"""A stream of typed changes: what `Engine.stream` returns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypedDict, TypeVar

from shardline.errors import ItemMismatch
from shardline.tables.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from shardline.core.gaps import Gap
    from shardline.services.records import DynamoDBRecord
    from shardline.streams.stream import Stream
    from shardline.tables.snapshot import TableSnapshot

T = TypeVar("T")

SNAPSHOT: Final = "snapshot"
"""The position that means: the items of the table first, then every change since."""


class Event(TypedDict):
    """The kind of a change."""

    id: str
    type: str
    """"insert", "modify" or "remove"; "snapshot" for an item that was in the table at the start."""
    version: str


class ChangeMeta(TypedDict):
    """The service's data about a change."""

    created_at: datetime
    """Aware, approximate. With arrow: `arrow.get(created_at).humanize()`."""
    event: Event
    sequence_number: str


class Change(TypedDict, Generic[T]):
    """One change of an item."""

    key: dict[str, Any]
    """The typed values of the key fields, by name."""
    new: T | None
    """The item after the change; None after a delete, and where the stream leaves it out."""
    old: T | None
    """The item before the change; None before an insert, and where the stream leaves it out."""
    meta: ChangeMeta


class ChangeStream(Generic[T]):
    """Typed changes of one table, in order: a `Stream` whose records are read as a model.

    A change that does not fit the model raises an `ItemMismatch` that names item and field. The
    stream stays before that change, so that each further call raises it again, until `skip()` or
    `move_to(…)`.
    """

    def __init__(
        self,
        records: Stream[DynamoDBRecord],
        shape: Shape[T],
        snapshot: TableSnapshot | None = None,
    ) -> None:
        self._records = records
        self._shape = shape
        self._snapshot = snapshot
        """The items to deliver before the first change; None when they are."""

    def __next__(self) -> Change[T] | None:
        """Return the next change, or None if there is none now. It never ends."""
        if self._snapshot is not None:
            item = self._next_of_snapshot()
            if item is not None:
                return item
        record = next(self._records)
        return None if record is None else self._change_of(record)

    def __iter__(self) -> Iterator[Change[T]]:
        """Yield changes only, waiting while there are none, until `close()`."""
        while (item := self._next_of_snapshot()) is not None:
            yield item
        for record in self._records:
            yield self._change_of(record)

    def __aiter__(self) -> Self:
        """Yield changes only, as a `for` loop does; the event loop is free while it waits."""
        return self

    async def __anext__(self) -> Change[T]:
        """Return the next change, waiting while there is none. Ends after `close()`."""
        if self._snapshot is not None:
            item = await asyncio.to_thread(self._next_of_snapshot)
            if item is not None:
                return item
        return self._change_of(await anext(self._records))

    def skip(self) -> DynamoDBRecord | None:
        """Go past the next change without its model; return the record as it was stored.

        Returns None if there is none, or if an item of the snapshot was passed over.
        """
        if self._snapshot is not None and self._snapshot.peek() is not None:
            self._snapshot.take()
            return None
        return next(self._records)

    @property
    def token(self) -> dict[str, Any]:
        """The position after the last change that was returned, as plain JSON."""
        token = self._records.token
        if self._snapshot is not None:
            token[SNAPSHOT] = self._snapshot.state()
        return token

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps that were accepted so far, with `on_gap="go_on"`."""
        return self._records.gaps

    def move_to(self, position: str | datetime | Mapping[str, Any]) -> None:
        """Move to a token, an aware time, "trim_horizon" or "latest"."""
        self._records.move_to(position)
        self._end_snapshot()

    def heartbeat(self) -> None:
        """Keep the position while `next` is not called; cheap in a tight loop."""
        self._records.heartbeat()

    def close(self) -> None:
        """End every `for` loop over this stream and close its connections."""
        if self._snapshot is not None:
            self._snapshot.close()
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ChangeStream of {self._shape.kind.__name__} from {repr(self._records)[1:-1]}>"

    def _repr_html_(self) -> str:
        """Return the shards of the stream as a table, for notebooks."""
        return self._records._repr_html_()

    def _next_of_snapshot(self) -> Change[T] | None:
        """Return the next item of the snapshot; None when there are no more."""
        if self._snapshot is None:
            return None
        self._records.heartbeat()  # only iterators may hold the place where changes begin
        found = self._snapshot.peek()
        if found is None:
            self._end_snapshot()
            return None
        change: Change[T] = {
            "key": self._shape.read_keys(found.keys),
            "new": self._shape.read(found.item, found.keys),
            "old": None,
            "meta": {
                "created_at": found.read_at,
                "event": {"id": "", "type": SNAPSHOT, "version": ""},
                "sequence_number": "",
            },
        }
        self._snapshot.take()
        return change

    def _end_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def _change_of(self, record: DynamoDBRecord) -> Change[T]:
        try:
            return read_change(self._shape, record)
        except ItemMismatch:
            self._records.put_back()
            raise


def read_change(shape: Shape[T], record: DynamoDBRecord) -> Change[T]:
    """Return a record as a typed change. Raises an `ItemMismatch` that names item and field."""
    keys, new, old = record.keys, record.new, record.old
    return {
        "key": shape.read_keys(keys),
        "new": None if new is None else shape.read(new, keys),
        "old": None if old is None else shape.read(old, keys),
        "meta": {
            "created_at": record.arrived_at,
            "event": {
                "id": record.event_id,
                "type": record.event_name.lower(),
                "version": record.event_version,
            },
            "sequence_number": record.sequence_number,
        },
    }


class ChangeReader(Generic[T]):
    """Reads records as changes of a model, in whichever process it is unpickled."""

    def __init__(self, model: type[T], table: str) -> None:
        self._model = model
        self._table = table
        self._shape: Shape[T] | None = None

    def __call__(self, record: DynamoDBRecord) -> Change[T]:
        """Return a record as a typed change."""
        if self._shape is None:
            self._shape = Shape(self._model, self._table)
        return read_change(self._shape, record)

    def __reduce__(self) -> tuple[type[ChangeReader[T]], tuple[type[T], str]]:
        return ChangeReader, (self._model, self._table)
