"""Operations on the streams of the embedded DynamoDB Streams, for tests and users."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, wraps
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_type_hints

import msgspec

from shardline.local.dynamodb_streams.changes import Change, EventName, Item, ViewType
from shardline.local.dynamodb_streams.state import StoredStream
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID, REGION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shardline.local.clock import Clock

TableName = Annotated[str, msgspec.Meta(min_length=3, max_length=255, pattern=r"^[a-zA-Z0-9_.-]+$")]
ShardCount = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class CreatedStream(msgspec.Struct, frozen=True):
    """A new stream and its root shards."""

    stream_arn: str
    shards: list[str]


class PutChange(msgspec.Struct, frozen=True):
    """The shard and the sequence number of a written change."""

    shard: str
    sequence_number: str


class Children(msgspec.Struct, frozen=True):
    """The children of a shard."""

    children: list[str]


Method = TypeVar("Method", bound="Callable[..., Any]")


def _journaled(method: Method) -> Method:
    """Make a method of `Tables` an operation: at one time, under the lock, and reported.

    A successful call is passed to `Tables.on_change`.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def act(self: Tables, *arguments: Any, **named: Any) -> Any:
        with self.at(self.clock.now_ms()) as now_ms:
            result = method(self, *arguments, **named)
            if self.on_change is not None:
                given = signature.bind(self, *arguments, **named).arguments
                del given["self"]
                self.on_change(method.__name__, given, now_ms)
        return result

    return cast("Method", act)


class Tables:
    """Streams of tables that have no items. Thread-safe.

    The methods up to `delete_stream` are also the operations of the control API, with their
    parameters as members. They raise `Refusal` with AWS's exception names. A table stands for its
    newest stream.
    """

    arn_prefix: Final = f"arn:aws:dynamodb:{REGION}:{ACCOUNT_ID}:table/"

    def __init__(self, clock: Clock) -> None:
        self.clock: Final = clock
        self.lock: Final = RLock()
        self._streams: dict[str, StoredStream] = {}
        self._label_ms = 0
        self._at_ms: int | None = None
        self.on_change: Callable[[str, dict[str, Any], int], None] | None = None
        """Called with every successful operation, its arguments and its time: see `at`."""
        self.before_call: Callable[[int], None] | None = None
        """Called with the time before each call of a client: items may have expired by then."""

    @contextmanager
    def at(self, now_ms: int) -> Iterator[int]:
        """Execute the operations of the block at a fixed time; an outer block has precedence."""
        with self.lock:
            before = self._at_ms
            self._at_ms = now_ms if before is None else before
            try:
                yield self._at_ms
            finally:
                self._at_ms = before

    def _now_ms(self) -> int:
        return self.clock.now_ms() if self._at_ms is None else self._at_ms

    @_journaled
    def create_table(
        self,
        table: TableName,
        view_type: ViewType = "NEW_AND_OLD_IMAGES",
        *,
        shards: ShardCount = 1,
        hash_key: str = "id",
        range_key: str | None = None,
    ) -> CreatedStream:
        """Create a table with a stream of one or several root shards.

        A table whose stream was disabled or deleted gets a new stream, with an ARN of its own.
        """
        now_ms = self._now_ms()
        newest = next(reversed(self.find_streams(table, now_ms)), None)
        if newest is not None and newest.disabled_ms is None:
            raise Refusal("ResourceInUseException", f"Table already exists: {table}")
        # Labels are unique per table, also for two streams of one millisecond.
        self._label_ms = max(now_ms, self._label_ms + 1)
        created_at = datetime.fromtimestamp(self._label_ms / 1000, UTC).replace(tzinfo=None)
        label = created_at.isoformat(timespec="milliseconds")
        arn = f"{self.arn_prefix}{table}/stream/{label}"
        names = [hash_key] if range_key is None else [hash_key, range_key]
        stream = StoredStream(
            table, view_type, names, shards=shards, arn=arn, label=label, now_ms=now_ms
        )
        self._streams[arn] = stream
        return CreatedStream(arn, list(stream.shards))

    @_journaled
    def put_change(
        self,
        table: str,
        keys: Item,
        old: Item | None = None,
        new: Item | None = None,
        *,
        event_name: EventName | None = None,
        at: datetime | None = None,
        by_ttl: bool = False,
        shard: str | None = None,
        sequence_number: str | None = None,
    ) -> PutChange:
        """Write one change into the open shard of its hash key; see `Change` for the arguments."""
        change = Change(keys, old, new, event_name, at, by_ttl, shard, sequence_number)
        now_ms = self._now_ms()
        return PutChange(*self.find_stream(table, now_ms).put(change, now_ms))

    @_journaled
    def split(self, table: str, shard: str) -> Children:
        """Close a shard and open two children."""
        now_ms = self._now_ms()
        return Children(self.find_stream(table, now_ms).split(shard, now_ms))

    @_journaled
    def roll(self, table: str, shard: str) -> Children:
        """Close a shard and open one child."""
        now_ms = self._now_ms()
        return Children(self.find_stream(table, now_ms).roll(shard, now_ms))

    @_journaled
    def disable_stream(self, table: str) -> None:
        """Close every shard. Its changes stay readable until they are trimmed."""
        now_ms = self._now_ms()
        self.find_stream(table, now_ms).disable(now_ms)

    @_journaled
    def delete_stream(self, table: str) -> None:
        """Delete the stream with all its changes at once."""
        del self._streams[self.find_stream(table, self._now_ms()).arn]

    def find_streams(self, table: str | None, now_ms: int) -> list[StoredStream]:
        """Return the streams of one table or of all, in order of creation."""
        return [
            stream
            for stream in self._streams.values()
            if table in (None, stream.table) and not stream.expired(now_ms)
        ]

    def find_stream(self, table: str, now_ms: int) -> StoredStream:
        """Return the newest stream of a table, or raise `Refusal`."""
        found = self.find_streams(table, now_ms)
        if not found:
            raise Refusal(
                "ResourceNotFoundException", f"Requested resource not found: Table: {table}"
            )
        return found[-1]

    def find_stream_by_arn(self, arn: str, now_ms: int) -> StoredStream:
        """Return a stream by its ARN, or raise `Refusal`."""
        stream = self._streams.get(arn)
        if stream is None or stream.expired(now_ms):
            raise Refusal(
                "ResourceNotFoundException",
                f"Requested resource not found: Stream: {arn} not found",
            )
        return stream


OPERATIONS: Final = {
    operation.__name__: operation
    for operation in (
        Tables.create_table,
        Tables.put_change,
        Tables.split,
        Tables.roll,
        Tables.disable_stream,
        Tables.delete_stream,
    )
}


def control(tables: Tables, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Execute one operation of the control API, with its parameters by name."""
    if operation not in OPERATIONS:
        raise Refusal(
            "UnknownOperationException",
            f"{operation!r} is not one of {', '.join(sorted(OPERATIONS))}",
        )
    try:
        parameters = msgspec.convert(request, _parameters_of(operation))
    except msgspec.ValidationError as fault:
        raise Refusal("ValidationException", f"{operation}: {fault}") from fault
    result = OPERATIONS[operation](tables, **msgspec.structs.asdict(parameters))
    return {} if result is None else msgspec.to_builtins(result)


@cache
def _parameters_of(operation: str) -> type[msgspec.Struct]:
    method = OPERATIONS[operation]
    hints = get_type_hints(method, include_extras=True)
    fields: list[Any] = [
        (name, hints[name])
        if parameter.default is parameter.empty
        else (name, hints[name], parameter.default)
        for name, parameter in inspect.signature(method).parameters.items()
        if name != "self"
    ]
    return msgspec.defstruct(operation, fields, forbid_unknown_fields=True, kw_only=True)
