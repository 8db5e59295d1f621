"""A stream of typed changes: what `Engine.stream` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar

from shardline.errors import ItemMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from shardline.core.gaps import Gap
    from shardline.services.records import DynamoDBRecord
    from shardline.streams.stream import Stream
    from shardline.tables.shapes import Shape

T = TypeVar("T")


class Event(TypedDict):
    """The kind of a change."""

    id: str
    type: str
    """"insert", "modify" or "remove"."""
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

    def __init__(self, records: Stream[DynamoDBRecord], shape: Shape[T]) -> None:
        self._records = records
        self._shape = shape

    def __next__(self) -> Change[T] | None:
        """Return the next change, or None if there is none now. It never ends."""
        record = next(self._records)
        return None if record is None else self._change_of(record)

    def __iter__(self) -> Iterator[Change[T]]:
        """Yield changes only, waiting while there are none, until `close()`."""
        for record in self._records:
            yield self._change_of(record)

    def __aiter__(self) -> Self:
        """Yield changes only, as a `for` loop does; the event loop is free while it waits."""
        return self

    async def __anext__(self) -> Change[T]:
        """Return the next change, waiting while there is none. Ends after `close()`."""
        return self._change_of(await anext(self._records))

    def skip(self) -> DynamoDBRecord | None:
        """Go past the next change without its model; return the record as it was stored."""
        return next(self._records)

    @property
    def token(self) -> dict[str, Any]:
        """The position after the last change that was returned, as plain JSON."""
        return self._records.token

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps that were accepted so far, with `on_gap="go_on"`."""
        return self._records.gaps

    def move_to(self, position: str | datetime | Mapping[str, Any]) -> None:
        """Move to a token, an aware time, "trim_horizon" or "latest"."""
        self._records.move_to(position)

    def heartbeat(self) -> None:
        """Keep the position while `next` is not called; cheap in a tight loop."""
        self._records.heartbeat()

    def close(self) -> None:
        """End every `for` loop over this stream and close its connections."""
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

    def _change_of(self, record: DynamoDBRecord) -> Change[T]:
        try:
            return self._read(record)
        except ItemMismatch:
            self._records.put_back()
            raise

    def _read(self, record: DynamoDBRecord) -> Change[T]:
        keys, new, old = record.keys, record.new, record.old
        return {
            "key": self._shape.read_keys(keys),
            "new": None if new is None else self._shape.read(new, keys),
            "old": None if old is None else self._shape.read(old, keys),
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
