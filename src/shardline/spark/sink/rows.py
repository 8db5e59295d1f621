"""Rows as records to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardline.core.writes.entries import make_entry
from shardline.core.writes.repeats import RepeatFilter
from shardline.errors import ConfigurationError
from shardline.spark.sink.options import DATA, HASH_KEY, KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from shardline.core.writes.entries import Entry
    from shardline.spark.sink.options import Sink


class RowEntries:
    """Turns the rows of one partition into entries, and checks them on the way."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rising: RepeatFilter[tuple[int, ...]] = RepeatFilter()

    def entries(self, batch: pa.RecordBatch) -> Iterator[Entry]:
        """Yield the entries of a batch. Raises `ConfigurationError` at a row that has no record."""
        keys, data = (_values(batch, name) for name in (KEY, DATA))
        hash_keys = (
            batch.column(HASH_KEY).to_pylist() if self._sink.has_hash_keys else [None] * len(keys)
        )
        if self._sink.dedupe_columns:
            self._check_positions(batch, keys)
        for key, content, hash_key in zip(keys, data, hash_keys, strict=True):
            raw = content.encode() if isinstance(content, str) else content
            yield make_entry(key, raw, hash_key)

    def _check_positions(self, batch: pa.RecordBatch, keys: list[str]) -> None:
        names = self._sink.dedupe_columns
        columns = [batch.column(name).to_pylist() for name in names]
        for key, *values in zip(keys, *columns, strict=True):
            position = tuple(map(_number, values, names))
            if not self._rising.is_new(key, position):
                raise ConfigurationError(
                    f"dedupeColumns: {', '.join(names)} of key {key[:40]!r} went from "
                    f"{self._rising.last[key]} to {position}, so readers would take the row for a "
                    "repeat: keep the rows of a key in one partition, in rising order"
                )


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    column = batch.column(name)
    if column.null_count:
        raise ConfigurationError(f"{name} is null in {column.null_count} rows: filter them out")
    values: list[Any] = column.to_pylist()
    return values


def _number(value: int | str | None, name: str) -> int:
    """Return a part of a position; null comes before every number."""
    if value is None:
        return -1
    try:
        return int(value)
    except ValueError:
        raise ConfigurationError(
            f"dedupeColumns: {value[:40]!r} in column {name} is no whole number"  # type: ignore[index]
        ) from None
