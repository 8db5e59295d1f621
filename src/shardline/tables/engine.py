"""The engine: binds models to tables, saves, loads and deletes items, streams their changes."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from shardline.errors import ConfigurationError, InvalidPosition, ServiceError, StreamNotFound
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience
from shardline.services.connection import connect
from shardline.services.snapshot_stream import DEFAULT_SEGMENTS, SnapshotSettings
from shardline.services.table_scan import TableScan
from shardline.streams.stream import open_stream
from shardline.tables.changes import SNAPSHOT, ChangeStream
from shardline.tables.models import Model, key_names_of, table_meta_of
from shardline.tables.shapes import Shape
from shardline.tables.snapshot import TableSnapshot, segments_in
from shardline.tables.tables import ENABLING, MISSING, bind_table, form_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shardline.tables.shapes import Item

T = TypeVar("T")
M = TypeVar("M", bound=Model)

_WAIT_SECONDS: Final = 300.0


class Engine:
    """Reads and writes models in DynamoDB.

    Region, endpoint and profile come from the usual AWS environment unless they are given. An
    engine may be shared between threads; the streams that it opens may not.
    """

    def __init__(
        self,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        profile: str | None = None,
        role_arn: str | None = None,
        external_id: str | None = None,
    ) -> None:
        self._access = Access(region, endpoint_url, profile, role_arn, external_id)
        self._client = make_client("dynamodb", self._access)

    def bind(self, *models: type[Model], wait_seconds: float = _WAIT_SECONDS) -> None:
        """Create the tables and streams of these models where they are missing.

        An existing table is never changed. Raises a `ConfigurationError` that says what differs
        if one does not fit its model.
        """
        for model in models:
            table = table_meta_of(model).table
            stream_status = partial(self._stream_status, table)
            bind_table(self._calls(table), table, form_of(model), stream_status, wait_seconds)

    def save(self, *items: Model) -> None:
        """Write items. Each replaces the whole item that was stored under its key."""
        for item in items:
            shape = _shape_of(type(item))
            self._call(shape.table, "put_item", Item=shape.write(item))

    def load(self, model: type[M], **key: Any) -> M | None:
        """Return the item with this key, read consistently, or None: `engine.load(User, id=…)`."""
        shape = _shape_of(model)
        keys = shape.write_keys(key_names_of(model), key)
        found = self._call(shape.table, "get_item", Key=keys, ConsistentRead=True)
        item: Item | None = found.get("Item")
        return None if item is None else shape.read(item, keys)

    def delete(self, *items: Model) -> None:
        """Delete items by their keys. Deleting an item that does not exist is not an error."""
        for item in items:
            shape = _shape_of(type(item))
            names = key_names_of(type(item))
            keys = shape.write_keys(names, {name: getattr(item, name) for name in names})
            self._call(shape.table, "delete_item", Key=keys)

    def stream(
        self,
        kind: type[T],
        position: str | datetime | Mapping[str, Any],
        *,
        table: str | None = None,
        segments: int = DEFAULT_SEGMENTS,
        scan_units_per_second: float | None = None,
        **options: Any,
    ) -> ChangeStream[T]:
        """Return the changes of a model's table from a position on.

        The position is "trim_horizon", "latest", an aware datetime, or a token. Pass the name of
        the table for a pydantic model or a dataclass that is not a `Model`. Further options are
        those of `shardline.stream`.

        "snapshot" gives every item of the table first, as a change of the type "snapshot", and
        then every change since the call: whoever keeps the newest image of each key has the table.
        The table is read in `segments` at once, at no more than `scan_units_per_second`.
        """
        if table is None:
            table = _streamed_table(kind)
        shape = Shape(kind, table)
        position, state = _snapshot_in(position)
        records = open_stream(f"dynamodb://{table}", position, self._access, **options)
        if state is None:
            return ChangeStream(records, shape)
        if state:
            segments = segments_in(state)
        settings = SnapshotSettings(segments, scan_units_per_second)
        snapshot = TableSnapshot(
            TableScan(self._calls(table), table, settings.segments),
            units_per_second=settings.units_per_second,
            state=state or None,
        )
        return ChangeStream(records, shape, snapshot)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __repr__(self) -> str:
        return f"<Engine at {self._client.meta.endpoint_url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _calls(self, table: str) -> Calls:
        return Calls(self._client, f"dynamodb://{table}", Patience())

    def _call(self, table: str, operation: str, **parameters: Any) -> dict[str, Any]:
        try:
            return self._calls(table).call(operation, TableName=table, **parameters)
        except StreamNotFound as error:
            raise ConfigurationError(f"{error}; `engine.bind(…)` creates missing tables") from error
        except InvalidPosition as error:
            raise ServiceError(str(error)) from error

    def _stream_status(self, table: str) -> str:
        service = connect(f"dynamodb://{table}", self._access)
        try:
            return "ACTIVE" if service.describe().active else ENABLING
        except StreamNotFound:
            return MISSING
        finally:
            service.close()


def _snapshot_in(position: Any) -> tuple[Any, dict[str, Any] | None]:
    """Return the position of the stream, and the state of the snapshot: None for no snapshot."""
    if position == SNAPSHOT:
        return "latest", {}
    if isinstance(position, dict) and SNAPSHOT in position:
        rest = {name: value for name, value in position.items() if name != SNAPSHOT}
        return rest, position[SNAPSHOT]
    return position, None


@cache
def _shape_of(model: type[M]) -> Shape[M]:
    return Shape(model, table_meta_of(model).table)


def _streamed_table(kind: type[Any]) -> str:
    if not issubclass(kind, Model):
        name = kind.__name__
        raise ConfigurationError(f"{name} names no table: write engine.stream({name}, …, table=…)")
    meta = table_meta_of(kind)
    if meta.view_type is None:
        raise ConfigurationError(
            f"{kind.__name__} declares no stream: add stream = {{'include': ['new', 'old']}} "
            "to its Meta, and bind it"
        )
    return meta.table
