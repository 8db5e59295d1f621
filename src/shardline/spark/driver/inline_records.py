"""Few records that a plan has read already travel with it: the executor need not read them again.

That spares two calls of a quota of five a second, and the time that they take. A plan that is read
again, after a restart, carries nothing; then the same records are read from the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.core.offsets import Range
    from shardline.core.positions import Position

_MOST_BYTES: Final = 100_000
"""Of one range. Spark warns of tasks that are sent with ten times as much."""

_MOST_BYTES_OF_ALL: Final = 4_000_000
"""Of all ranges together, which the driver keeps until they are sent."""


@dataclass(frozen=True, slots=True)
class Carried:
    """All records between two positions."""

    after: Position
    upto: Position
    batches: tuple[pa.RecordBatch, ...]

    def of(self, item: Range) -> bool:
        """Say whether these are exactly the records of a range."""
        return (self.after, self.upto) == (item.after, item.upto)


def most_bytes(shards: int) -> int:
    """Return how much may be carried of each of so many shards."""
    return min(_MOST_BYTES, _MOST_BYTES_OF_ALL // max(shards, 1))


def pack(carried: Carried) -> bytes:
    """Return the records as they travel with a task; nothing for none."""
    if not carried.batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, carried.batches[0].schema) as stream:
        for batch in carried.batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(packed: bytes) -> Iterator[pa.RecordBatch]:
    """Yield what was packed."""
    if packed:
        with pa.ipc.open_stream(packed) as stream:
            yield from stream
