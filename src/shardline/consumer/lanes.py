"""Keys of one shard side by side: which lane a record is in, and how far may be checkpointed.

How a pipeline uses it, for `lanes = n` on the consumer:

    watermark = Watermark[Chunk]()
    parts = split(chunk.records, n, hash_key)                  # one batch for each lane
    ticket = watermark.opened(chunk, sum(part.num_rows > 0 for part in parts))
    # each lane delivers its parts one after the other, in the order in which they were split:
    outcome = yield from delivery.deliver_steps(part)
    if isinstance(outcome, Done) and (reached := watermark.acknowledged(ticket)) is not None:
        ...                                                    # checkpoint after `reached`

A key is always in the same lane, so that its records stay in order while lanes overtake each
other. A checkpoint covers everything before it; it therefore stops at the first chunk of which
any part is not acknowledged, whatever was acknowledged after that.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from shardline.consumer.keys import keys_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

_PRIME: Final = np.uint64(0x100000001B3)


def split(records: pa.RecordBatch, lanes: int, hash_key: str | None = None) -> list[pa.RecordBatch]:
    """Return one batch for each lane, empty for some; the records of a key stay together, in order.

    The lane of a key is the same for every page.
    """
    if lanes == 1 or not records.num_rows:
        return [records, *[records.slice(0, 0)] * (lanes - 1)]
    lane_of = _hashes(keys_of(records, hash_key)) % np.uint64(lanes)
    return [_rows_of(records, lane_of == lane) for lane in range(lanes)]


def _rows_of(records: pa.RecordBatch, wanted: NDArray[np.bool_]) -> pa.RecordBatch:
    """Return some rows in their order; without a copy if they lie side by side."""
    rows = np.flatnonzero(wanted)
    if not len(rows) or rows[-1] - rows[0] == len(rows) - 1:
        return records.slice(int(rows[0]) if len(rows) else 0, len(rows))
    return records.take(pa.array(rows))


def _hashes(keys: pa.StringArray) -> NDArray[np.uint64]:
    """Return a hash of each key: the sum of its bytes, each times a power of a prime, mixed.

    Whole columns at a time, with no Python object for each record.
    """
    _, offsets, values = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    starts, lengths = bounds[:-1].astype(np.int64), np.diff(bounds).astype(np.int64)
    hashes = np.zeros(len(keys), np.uint64)
    longest = int(lengths.max(initial=0))
    if longest:
        powers = np.cumprod(np.full(longest, _PRIME, np.uint64))
        raw = np.frombuffer(values, np.uint8)[bounds[0] : bounds[-1]]
        places = np.arange(len(raw)) - np.repeat(starts - starts[0], lengths)
        products = (raw.astype(np.uint64) + np.uint64(1)) * powers[places]
        filled = np.flatnonzero(lengths)
        hashes[filled] = np.add.reduceat(products, starts[filled] - starts[0])
    # The low bits of a sum depend on the low bits of the bytes alone: fold in the high ones.
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    return hashes ^ (hashes >> np.uint64(33))


@dataclass(slots=True)
class _Open(Generic[T]):
    chunk: T
    parts: int


class Watermark(Generic[T]):
    """Chunks in the order in which they were read; knows up to which all are acknowledged."""

    def __init__(self) -> None:
        self._open: deque[_Open[T]] = deque()
        self._first = 0
        """The ticket of the first open chunk."""

    def opened(self, chunk: T, parts: int) -> int:
        """Add the next chunk, to be acknowledged in so many parts; return its ticket."""
        if parts < 1:
            raise ValueError("a chunk without parts would never be acknowledged")
        self._open.append(_Open(chunk, parts))
        return self._first + len(self._open) - 1

    def acknowledged(self, ticket: int) -> T | None:
        """Count one part as done; return the last chunk up to which all now are, if it moved."""
        one = self._open[ticket - self._first] if ticket >= self._first else None
        if one is None or not one.parts:
            raise ValueError(f"chunk {ticket} was acknowledged more often than it has parts")
        one.parts -= 1
        reached: T | None = None
        while self._open and not self._open[0].parts:
            reached = self._open.popleft().chunk
            self._first += 1
        return reached

    def __len__(self) -> int:
        """Return how many chunks are not wholly acknowledged, or wait for one before them."""
        return len(self._open)
