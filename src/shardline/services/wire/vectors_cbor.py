"""The records of a CBOR body all at once: every length is in the body, so little is searched for.

As in `vectors_json`, records usually have the shape of the first one. The start of each is found by
the name that it begins with; then all records are walked through together, field by field.
Everything is verified. A body that does not fit is left to the simple decoder.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardline.core.shards import SEQUENCE_DIGITS
from shardline.services.wire.cbor import decode_at, head, read_head
from shardline.services.wire.columns import KINESIS_COLUMNS, LAST_SECOND, TIME
from shardline.services.wire.spans import (
    Places,
    column_is,
    copied_out,
    digits,
    places_of_each,
    texts,
    windows_at,
    words_at,
)
from shardline.services.wire.vectors_json import Records

_BYTES, _TEXT, _ARRAY, _MAP = 2, 3, 4, 5
_WITHOUT_END: Final = 31
_BREAK: Final = b"\xff"
_TIME_FIELD: Final = "ApproximateArrivalTimestamp"
_NUMBER_FIELD: Final = "SequenceNumber"
_FIELDS: Final = {"Data", "PartitionKey", _NUMBER_FIELD, _TIME_FIELD}
_TIME_HEAD: Final = b"\xc1\x1b"
"""Tag 1, and a whole number of eight bytes."""
_TIME_BYTES: Final = 8

_MANY: Final = 24
"""From here on it pays to decode all records at once, which costs 0.2 ms however few there are."""

_EXTRA_BYTES: Final = np.array([0] * 24 + [1, 2, 4] + [0] * 5)
"""How many bytes of length follow the first, by its lower five bits."""
_SHIFT: Final = np.array([0] * 24 + [24, 16, 0] + [0] * 5, np.uint32)
_SMALLEST_LONG_INFO, _LARGEST_INFO = 24, 26
_LENGTH_TYPES: Final = {24: "u1", 25: ">u2", 26: ">u4"}


class _Field(NamedTuple):
    name: str
    literal: bytes
    """The bytes of the name, those before it if it is the first, and those before a value of fixed
    size."""
    fixed_bytes: int | None
    """How long each value is: times and sequence numbers are as long as those of the first."""

    @property
    def size_bytes(self) -> int:
        """How much lies at a fixed distance from the place before."""
        return len(self.literal) + (self.fixed_bytes or 0)


class _Shape(NamedTuple):
    runs: list[list[_Field]]
    """The fields in order; only the last of a run has values of any length."""
    has_break: bool
    size_bytes: int

    @property
    def landmark(self) -> tuple[_Field, int]:
        """The field with the longest literal at a fixed place in every record, and that place."""
        run = self.runs[0]
        field = max(run, key=lambda field: len(field.literal))
        return field, sum(each.size_bytes for each in run[: run.index(field)])


class _Walked(NamedTuple):
    spans: dict[str, tuple[Places, Places]]
    fixed: dict[str, npt.NDArray[np.uint8]]
    """The values of fixed size, one row each."""
    ends: Places
    """Where each record ends; -1 for one that does not fit."""


def decode_alike_cbor(body: bytes, at_least: int = _MANY) -> Records | None:
    """Return the records if all of them look like the first and they are many, else None.

    `start` and `stop` of what is returned are the places of the whole array, its head included.
    """
    try:
        found = _find_array(body)
        if found is None or (found[2] is not None and found[2] < at_least):
            return None
        array, first, count = found
        shape = _shape_of_first(body, first)
    except msgspec.DecodeError:
        return None
    if shape is None or len(body) // shape.size_bytes < at_least:
        return None
    landmark, distance = shape.landmark
    # Data that holds the landmark as well fails the check of where the next record starts.
    starts = places_of_each(body, [landmark.literal], first + distance)[0] - distance
    if not len(starts):
        return None
    try:
        walked = _walk(body, starts, shape)
        following = walked.ends[:-1] == starts[1:]
        rows = len(starts) if following.all() else int(np.argmin(following)) + 1
        stop = int(walked.ends[rows - 1])
        if starts[0] != first or stop < 0 or (count is not None and count != rows):
            return None
        found_texts = {
            name: texts(body, begins[:rows], ends[:rows])  # the unused ones must be UTF-8 as well
            for name, (begins, ends) in walked.spans.items()
            if name != "Data"
        }
        columns = [
            found_texts["PartitionKey"],
            copied_out(body, *(each[:rows] for each in walked.spans["Data"])),
            digits(walked.fixed[_NUMBER_FIELD][:rows]),
            _times(walked.fixed[_TIME_FIELD][:rows]),
        ]
    except ValueError:  # cut short, bad UTF-8 or digits: the simple decoder says where
        return None
    if count is None:
        if body[stop : stop + 1] != _BREAK:
            return None
        stop += 1
    return Records(pa.RecordBatch.from_arrays(columns, schema=KINESIS_COLUMNS), array, stop)


def _find_array(body: bytes) -> tuple[int, int, int | None] | None:
    """Find the array of records: its place, the place of the first, how many (None: till a break).

    The members before it are read over, so that no text that looks like it is taken for it.
    """
    kind, _, _, place = read_head(body, 0)
    while kind == _MAP and body[place : place + 1] != _BREAK and place < len(body):
        name, place = decode_at(body, place)
        if name == "Records":
            array_kind, info, count, first = read_head(body, place)
            if array_kind != _ARRAY:
                return None
            return place, first, None if info == _WITHOUT_END else count
        place = _place_after(body, place)
    return None


def _place_after(body: bytes, place: int) -> int:
    """Return the place after an item, without copying data that may be big."""
    kind, info, number, inside = read_head(body, place)
    if kind in (_BYTES, _TEXT) and info != _WITHOUT_END:
        return inside + number
    return decode_at(body, place)[1]


def _shape_of_first(body: bytes, place: int) -> _Shape | None:
    """Return the shape of the first record, or None for one that is not as expected."""
    kind, info, count, after = read_head(body, place)
    if kind != _MAP:
        return None
    start, before, place = place, body[place:after], after
    has_break = info == _WITHOUT_END
    fields: list[_Field] = []
    while body[place : place + 1] != _BREAK if has_break else len(fields) < count:
        name, place = decode_at(body, place)
        if not isinstance(name, str):
            return None
        literal = before + head(_TEXT, len(name.encode())) + name.encode()
        before, fixed_bytes = b"", None
        if name == _TIME_FIELD:
            literal, fixed_bytes = literal + _TIME_HEAD, _TIME_BYTES
        elif name == _NUMBER_FIELD:
            fixed_bytes = read_head(body, place)[2]
            if fixed_bytes > SEQUENCE_DIGITS:
                return None
            literal += head(_TEXT, fixed_bytes)
        fields.append(_Field(name, literal, fixed_bytes))
        place = _place_after(body, place)
        if place > len(body):
            return None
    names = {field.name for field in fields}
    if len(names) < len(fields) or not names >= _FIELDS:
        return None
    runs: list[list[_Field]] = [[]]
    for field in fields:
        runs[-1].append(field)
        if field.fixed_bytes is None:
            runs.append([])
    return _Shape([run for run in runs if run], has_break, place - start)


def _walk(body: bytes, places: Places, shape: _Shape) -> _Walked:
    """Go through all records at once, from the start of each on."""
    landmark, _ = shape.landmark
    spans: dict[str, tuple[Places, Places]] = {}
    fixed: dict[str, npt.NDArray[np.uint8]] = {}
    good = np.ones(len(places), bool)
    for run in shape.runs:
        windows = windows_at(body, places, sum(field.size_bytes for field in run))
        column = 0
        for field in run:
            if field is not landmark:  # by that one they were found
                good &= column_is(windows, column, field.literal)
            column += field.size_bytes
            if field.fixed_bytes:
                fixed[field.name] = windows[:, column - field.fixed_bytes : column]
        places = places + column
        if run[-1].fixed_bytes is None:
            name = run[-1].name
            begins, lengths, fits = _lengths(body, places, _BYTES if name == "Data" else _TEXT)
            good &= fits
            places = begins + lengths
            spans[name] = begins, places
    if shape.has_break:
        good &= words_at(body, places, "u1") == _BREAK[0]
        places = places + 1
    return _Walked(spans, fixed, np.where(good & (places <= len(body)), places, -1))


def _lengths(
    body: bytes, places: Places, kind: int
) -> tuple[Places, npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return where each value begins, how long it is, and whether it is of this kind."""
    heads = words_at(body, places, "u1")
    info = heads & 31
    fits = (heads >> 5 == kind) & (info <= _LARGEST_INFO)
    if len(heads) and (heads == heads[0]).all() and int(info[0]) in _LENGTH_TYPES:
        dtype = _LENGTH_TYPES[int(info[0])]
        lengths = words_at(body, places + 1, dtype).astype(np.int64)
        return places + 1 + np.dtype(dtype).itemsize, lengths, fits
    if len(info) and info.max() < _SMALLEST_LONG_INFO:
        return places + 1, info, fits
    words = words_at(body, places + 1, ">u4").astype(np.uint32)
    lengths = np.where(info < 24, info, words >> _SHIFT[info])
    return places + 1 + _EXTRA_BYTES[info], lengths, fits


def _times(rows: npt.NDArray[np.uint8]) -> pa.Array:
    milliseconds = np.ascontiguousarray(rows).view(">i8").reshape(-1).astype(np.int64)
    if milliseconds.min() < 0 or milliseconds.max() > LAST_SECOND * 1000:
        raise ValueError("a record has an impossible time")
    micros = milliseconds * 1000
    return pa.Array.from_buffers(TIME, len(rows), [None, pa.py_buffer(micros)])
