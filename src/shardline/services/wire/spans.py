"""Values at known positions in a body, checked and copied out for all records at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places: TypeAlias = npt.NDArray[np.int64]

_WORDS: Final = (8, 4, 2, 1)
_MOST_STRIDE: Final = 254
_ZERO, _NINE = b"09"


def stands_at(body: bytes, places: Places, literal: bytes) -> npt.NDArray[np.bool_]:
    """Return for each place whether the literal is there."""
    return column_is(windows_at(body, places, len(literal)), 0, literal)


def column_is(windows: npt.NDArray[np.uint8], column: int, literal: bytes) -> npt.NDArray[np.bool_]:
    """Return for each row whether the literal is at this column, comparing words of bytes."""
    count, width = windows.shape
    if not count:
        return np.ones(0, bool)
    size = next(size for size in _WORDS if size <= len(literal))
    good: npt.NDArray[np.bool_] | None = None
    for start in {*range(0, len(literal) - size + 1, size), len(literal) - size}:
        words: npt.NDArray[Any] = np.ndarray(
            (count,), f"<u{size}", windows.data, column + start, strides=(width,)
        )
        same = words == int.from_bytes(literal[start : start + size], "little")
        good = same if good is None else np.logical_and(good, same, out=good)
    return np.ones(count, bool) if good is None else good


def places_of_each(body: bytes, literals: Sequence[bytes], begin: int) -> list[Places]:
    """Find every place of each literal, of at least two bytes, from a place on.

    A pair of bytes is looked at only every so many bytes: every literal is long enough to cover
    one. The pair gives the place where the literal would begin, which is then compared.
    """
    stride = min(_MOST_STRIDE, *(len(literal) - 1 for literal in literals))
    stride -= stride % 2 if stride > 1 else 0  # even places are read faster
    even = begin - begin % 2
    count = max(0, (len(body) - even - 2) // stride + 1)
    pairs = np.ndarray((count,), "<u2", body, even, strides=(stride,)).astype(np.intp)
    found = []
    for literal in literals:
        first_offsets, *more_offsets = _offsets_by_pair(literal[: stride + 1])
        offsets = first_offsets.take(pairs)
        hits = np.flatnonzero(offsets.astype(bool))
        places: Places = hits * stride - offsets[hits] + (even + 1)
        for others in more_offsets:  # of a pair that occurs again
            offsets = others.take(pairs[hits])
            again = np.flatnonzero(offsets)
            places = np.append(places, hits[again] * stride - offsets[again] + (even + 1))
        places = places[(places >= begin) & (places <= len(body) - len(literal))]
        if len(places):  # a body may be shorter than a literal
            places = places[stands_at(body, places, literal)]
        found.append(np.sort(places, kind="stable") if more_offsets else places)
    return found


@lru_cache(maxsize=32)
def _offsets_by_pair(literal: bytes) -> list[npt.NDArray[np.uint8]]:
    """Return tables of the offset in a literal of each pair of bytes, plus one; 0 for none.

    The second table holds the second offset of a pair that occurs twice, and so on.
    """
    tables: list[npt.NDArray[np.uint8]] = []
    seen: Counter[bytes] = Counter()
    for offset in range(len(literal) - 1):
        pair = literal[offset : offset + 2]
        if seen[pair] == len(tables):
            tables.append(np.zeros(1 << 16, np.uint8))
        tables[seen[pair]][int.from_bytes(pair, "little")] = offset + 1
        seen[pair] += 1
    return tables


def windows_at(body: bytes, places: Places, size: int) -> npt.NDArray[np.uint8]:
    """Copy out this many bytes at each place, one row each; at the end they start further left."""
    windows: npt.NDArray[Any] = np.ndarray((len(body) - size + 1,), f"V{size}", body, strides=(1,))
    return windows[np.minimum(places, len(windows) - 1)].view(np.uint8).reshape(-1, size)


def words_at(body: bytes | pa.Buffer, places: Places, dtype: str) -> npt.NDArray[Any]:
    """Read a number at each place; one that would reach over the end is read further left."""
    size = np.dtype(dtype).itemsize
    words: npt.NDArray[Any] = np.ndarray((len(body) - size + 1,), dtype, body, strides=(1,))
    return words[np.minimum(places, len(words) - 1)]


def copied_out(data: bytes | pa.Buffer, begins: Places, ends: Places) -> pa.Array:
    """Copy out values: from an array that also has what lies between them, which is left out."""
    offsets = np.empty(2 * len(begins), np.int32)
    offsets[0::2], offsets[1::2] = begins, ends
    all_of_it = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return all_of_it.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int64)))


def texts(body: bytes, begins: Places, ends: Places) -> pa.Array:
    """Copy out values that are texts. Raises `ValueError` for one that is not UTF-8."""
    return copied_out(body, begins, ends).cast(pa.string())


def offsets_and_bytes(values: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return where the texts of an array begin and end, and their bytes; it must be no slice."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1)
    return bounds, np.frombuffer(data or b"", np.uint8, int(bounds[-1]))


def are_digits(text: npt.NDArray[np.uint8]) -> bool:
    """Return true if every byte is a decimal digit."""
    return bool((text - np.uint8(_ZERO) <= _NINE - _ZERO).all())


def digits(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Return rows of digits as texts. Raises `ValueError` for a row with anything else."""
    texts_ = np.ascontiguousarray(rows)
    if len(texts_) and (texts_.min() < _ZERO or texts_.max() > _NINE):
        raise ValueError("a number is not of digits")
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts_)]
    return pa.Array.from_buffers(pa.string(), len(rows), buffers)
