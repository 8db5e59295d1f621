"""Splits aggregated records of the Kinesis Producer Library into the user's own records.

An aggregated record holds many user records: four magic bytes, a protobuf message, its MD5. The
message has a table of partition keys (field 1), a table of explicit hash keys (2) and the user
records (3), each with the index of its key (1), of its explicit hash key (2), and its data (3).

A record that only looks aggregated is delivered as it is: nothing is dropped for being damaged.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from shardline.core.shards import hash_key_of
from shardline.services.clock import boot_seconds
from shardline.services.log_limits import LogLimit
from shardline.services.wire.columns import SUB_SEQUENCE
from shardline.services.wire.protobuf import UserRecords, read_message
from shardline.services.wire.spans import copied_out, words_at

if TYPE_CHECKING:
    import numpy.typing as npt

    from shardline.core.positions import After
    from shardline.core.shards import HashRange

logger = logging.getLogger(__name__)

MAGIC: Final = b"\xf3\x89\x9a\xc2"

_DIGEST_BYTES: Final = 16
_MOST_GROWTH: Final = 32
"""A record of many tiny user records grows, since each row repeats its key and sequence number.
One that would grow by more than this was made to fill memory: real ones grow far less."""
_GROWTH_ALLOWED_BYTES: Final = 1024 * 1024
"""Growth up to here is not looked at."""
_ROW_BYTES: Final = 100
"""About what a row takes beside its key and data: sequence number, times, offsets."""

_log_limit: Final = LogLimit()


class _Split(NamedTuple):
    row: int
    """The row of the aggregated record in its page."""
    start: int
    """The position of its message in the data of the page."""
    records: UserRecords


def split_aggregated(
    page: pa.RecordBatch,
    after: After | None = None,
    *,
    shard_range: HashRange | None = None,
    verify: bool = True,
) -> pa.RecordBatch:
    """Return a page's records with the aggregated ones split, and a column `subSequenceNumber`.

    `after` is the position at which the page was opened. If it names a user record of an aggregated
    record, that one and those before it are left out.

    With a `shard_range`, an aggregated record is dropped as a whole if it has a user record whose
    hash key lies outside. The producer library aggregates by the shards that it knows. If a split
    comes in between, it writes all user records of such a record again, into the right shards; the
    first copies would come out of order beside them. The Kinesis Client Library drops them as well.

    A page without a column `data` (DynamoDB Streams) is returned as it is.
    """
    if "data" not in page.schema.names:
        return page
    splits, dropped = _split_records(page, shard_range, verify=verify)
    columns, numbers = page.columns, pa.nulls(page.num_rows, pa.int64())
    if splits or dropped:
        rows, numbers = _spread(page.num_rows, splits, dropped)
        columns = _columns(page, splits, rows)
    whole = pa.RecordBatch.from_arrays([*columns, numbers], schema=page.schema.append(SUB_SEQUENCE))
    return whole if after is None else _from_after(whole, after)


def _split_records(
    page: pa.RecordBatch, shard_range: HashRange | None, *, verify: bool
) -> tuple[list[_Split], list[int]]:
    """Return the aggregated records that are whole, and the rows of those to drop."""
    splits: list[_Split] = []
    dropped: list[int] = []
    damaged: list[int] = []
    _, offsets, values = page.column("data").buffers()
    for row in _rows_with_magic(page.column("data")):
        start, stop = np.frombuffer(offsets, np.int32)[page.column("data").offset + row :][:2]
        records = _user_records(values[int(start) : int(stop)].to_pybytes(), verify=verify)
        if records is None:
            damaged.append(row)
        elif shard_range is not None and _has_stray(records, shard_range):
            dropped.append(row)
        else:
            splits.append(_Split(row, int(start) + len(MAGIC), records))
    if damaged and _log_limit.admit("damaged", boot_seconds()) is not None:
        logger.warning(
            "record %s looks aggregated but is not whole: delivered as it is (%d in its page)",
            page.column("sequenceNumber")[damaged[0]].as_py(),
            len(damaged),
        )
    return splits, dropped


def _rows_with_magic(data: pa.BinaryArray) -> list[int]:
    """Return the rows that begin with the magic bytes, without a look at the rest of them."""
    _, offsets, values = data.buffers()
    if values is None or values.size <= len(MAGIC) + _DIGEST_BYTES or not len(data):
        return []
    bounds = np.frombuffer(offsets, np.int32)[data.offset : data.offset + len(data) + 1]
    first = words_at(values, bounds[:-1].astype(np.int64), "<u4")
    rows = np.flatnonzero(first == int.from_bytes(MAGIC, "little"))
    sizes = bounds[rows + 1] - bounds[rows]
    found: list[int] = rows[sizes > len(MAGIC) + _DIGEST_BYTES].tolist()
    return found


def _user_records(record: bytes, *, verify: bool) -> UserRecords | None:
    """Return the user records, or None if this is no whole aggregated record."""
    message = record[len(MAGIC) : -_DIGEST_BYTES]
    if verify and hashlib.md5(message, usedforsecurity=False).digest() != record[-_DIGEST_BYTES:]:
        return None
    try:
        records = read_message(message)
    except (ValueError, IndexError):
        return None
    sizes = np.array([len(key) for key in records.keys], np.int64)
    grown = int(sizes[records.key_index].sum()) + _ROW_BYTES * len(records.key_index)
    if grown > max(_MOST_GROWTH * len(record), _GROWTH_ALLOWED_BYTES):
        return None
    return records


def _has_stray(records: UserRecords, shard_range: HashRange) -> bool:
    """Return true if a user record belongs to another shard."""
    explicit = records.hash_index >= 0
    strays = [
        *(hash_key_of(key) not in shard_range for key in records.keys),
        *(int(number) not in shard_range for number in records.hash_keys),
    ]
    used = np.where(explicit, len(records.keys) + records.hash_index, records.key_index)
    return bool(np.array(strays, bool)[used].any())


def _spread(
    count: int, splits: list[_Split], dropped: list[int]
) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return for each row to come the row of the page that it is from, and its sub-sequence."""
    counts = np.ones(count, np.int64)
    counts[dropped] = 0
    whole = np.ones(count, bool)
    for split in splits:
        counts[split.row] = len(split.records.begins)
        whole[split.row] = False
    rows = np.repeat(np.arange(count), counts)
    starts = np.cumsum(counts) - counts
    return rows, pa.array(np.arange(len(rows)) - starts[rows], mask=whole[rows])


def _columns(
    page: pa.RecordBatch, splits: list[_Split], rows: npt.NDArray[np.int64]
) -> list[pa.Array]:
    """Return the columns of the rows to come; the data of an aggregated record is copied once."""
    if not len(rows):
        return list(page.slice(0, 0).columns)
    data = page.column("data")
    _, offsets, values = data.buffers()
    bounds = np.frombuffer(offsets, np.int32)[data.offset : data.offset + len(data) + 1]
    begins, ends = bounds[rows].astype(np.int64), bounds[rows + 1].astype(np.int64)
    keys: list[pa.Array] = [page.column("partitionKey")]
    key_rows = rows.copy()
    known_keys = page.num_rows
    for split in splits:
        first = int(np.searchsorted(rows, split.row))
        here = slice(first, first + len(split.records.begins))
        begins[here] = split.start + split.records.begins
        ends[here] = split.start + split.records.ends
        key_rows[here] = known_keys + split.records.key_index
        keys.append(pa.array(split.records.keys, pa.string()))
        known_keys += len(split.records.keys)
    taken = {
        "partitionKey": pa.concat_arrays(keys).take(pa.array(key_rows)),
        "data": copied_out(values, begins, ends),
    }
    return [
        taken[name] if name in taken else page.column(name).take(pa.array(rows))
        for name in page.schema.names
    ]


def _from_after(records: pa.RecordBatch, after: After) -> pa.RecordBatch:
    """Drop the user records up to `after` from the record that it names, which comes first."""
    if after.sub_sequence is None or not records.num_rows:
        return records
    numbers = records.column("sequenceNumber")
    subs = records.column(SUB_SEQUENCE.name)
    row = 0
    while (
        row < records.num_rows
        and (subs[row].as_py() or 0) <= after.sub_sequence
        and int(numbers[row].as_py()) == int(after.sequence)
    ):
        row += 1
    return records.slice(row)
