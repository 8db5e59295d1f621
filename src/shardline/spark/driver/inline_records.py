"""Few records that a plan has read already travel with it: the executor need not read them again.

That spares two calls of a quota of five a second, and the time that they take. A plan that is read
again, after a restart, carries nothing; then the same records are read from the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def pack(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return the records as they travel with a task; nothing for none."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(packed: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the records of `pack`."""
    if packed:
        with pa.ipc.open_stream(packed) as stream:
            yield from stream
