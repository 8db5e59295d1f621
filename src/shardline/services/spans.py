"""Values that lie scattered in a body, checked and copied out for all records at once."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places: TypeAlias = npt.NDArray[np.int64]

_WORDS: Final = (8, 4, 2, 1)
_CHUNK_BYTES: Final = 1 << 18
"""What stays in a processor's cache while it is looked at twice."""


def stands_at(body: bytes, places: Places, literal: bytes) -> npt.NDArray[np.bool_]:
    """Say for each place whether the literal stands there."""
    return column_is(windows_at(body, places, len(literal)), 0, literal)


def column_is(windows: npt.NDArray[np.uint8], column: int, literal: bytes) -> npt.NDArray[np.bool_]:
    """Say for each row whether the literal stands at this column, comparing words of bytes."""
    count, width = windows.shape
    size = next(size for size in _WORDS if size <= len(literal))
    good: npt.NDArray[np.bool_] | None = None
    for start in {*range(0, len(literal) - size + 1, size), len(literal) - size}:
        words: npt.NDArray[Any] = np.ndarray(
            (count,), f"<u{size}", windows.data, column + start, strides=(width,)
        )
        same = words == int.from_bytes(literal[start : start + size], "little")
        good = same if good is None else np.logical_and(good, same, out=good)
    return np.ones(count, bool) if good is None else good


def places_of(body: bytes, literal: bytes, begin: int) -> Places:
    """Find every place of a literal, from a place on. Its first three bytes must not be the same.

    Looked for are its first two bytes at even places and its next two, which stand there where it
    is at an odd one; what is found is then compared as a whole.
    """
    pairs = np.frombuffer(body, "<u2", len(body) // 2)
    at_even, at_odd = (int.from_bytes(literal[n : n + 2], "little") for n in (0, 1))
    found = [np.empty(0, np.int64)]
    for start in range(begin // 2, len(pairs), _CHUNK_BYTES // 2):
        chunk = pairs[start : start + _CHUNK_BYTES // 2]
        found.append(np.flatnonzero((chunk == at_even) | (chunk == at_odd)) + start)
    hits = np.concatenate(found)
    places: Places = 2 * hits - (pairs[hits] == at_odd)
    places = places[(places >= begin) & (places <= len(body) - len(literal))]
    return places[stands_at(body, places, literal)]


def windows_at(body: bytes, places: Places, size: int) -> npt.NDArray[np.uint8]:
    """Copy out so many bytes at each place, one row each; those over the end start further left."""
    windows: npt.NDArray[Any] = np.ndarray((len(body) - size + 1,), f"V{size}", body, strides=(1,))
    return windows[np.minimum(places, len(windows) - 1)].view(np.uint8).reshape(-1, size)


def words_at(body: bytes, places: Places, dtype: str) -> npt.NDArray[Any]:
    """Read a number at each place; one that would reach over the end is read further left."""
    size = np.dtype(dtype).itemsize
    words: npt.NDArray[Any] = np.ndarray((len(body) - size + 1,), dtype, body, strides=(1,))
    return words[np.minimum(places, len(words) - 1)]


def copied_out(data: bytes, begins: Places, ends: Places) -> pa.Array:
    """Copy out values, as an array that includes what lies between them and then leaves it out."""
    offsets = np.empty(2 * len(begins), np.int32)
    offsets[0::2], offsets[1::2] = begins, ends
    all_of_it = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return all_of_it.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int64)))


def texts(body: bytes, begins: Places, ends: Places) -> pa.Array:
    """Copy out values that are texts. Raises `ValueError` for one that is not UTF-8."""
    return copied_out(body, begins, ends).cast(pa.string())
