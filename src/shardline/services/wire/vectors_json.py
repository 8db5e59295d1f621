"""The records of a big Kinesis body all at once: positions found by numpy, values moved by Arrow.

Every record of a body usually looks like the first: the same fields in the same order, no spaces,
no escapes. Then the positions of the names give the position of each value. Everything is
verified. A body that does not fit is left to the typed decoder, so that both always agree.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pybase64 import b64decode

from shardline.core.shards import SEQUENCE_DIGITS
from shardline.services.wire.columns import KINESIS_COLUMNS, time_array
from shardline.services.wire.spans import (
    Places,
    are_digits,
    copied_out,
    digits,
    offsets_and_bytes,
    places_of_each,
    stands_at,
    texts,
    windows_at,
)

_ARRAY: Final = b'"Records":['
_FIELD: Final = re.compile(rb'"([A-Za-z]+)":(?:(")[^"\\]*"|[-+.0-9eE]+)([,}])')
_TIME_FIELD: Final = b"ApproximateArrivalTimestamp"
_NUMBER_FIELD: Final = b"SequenceNumber"
_FIELDS: Final = {b"PartitionKey", b"Data", _NUMBER_FIELD, _TIME_FIELD}
_LONGEST_NUMBER: Final = 32
_QUOTE: Final = ord('"')
_PAD: Final = ord("=")
_BACKSLASH: Final = ord("\\")
_SPACE: Final = ord(" ")
_DIGIT: Final = ord("A")
_ZERO, _NINE = (np.uint8(byte) for byte in b"09")


class _Field(NamedTuple):
    name: bytes
    quoted: bool
    literal: bytes
    """The bytes before the value, from the brace or comma before the name on."""

    @property
    def any_length(self) -> bool:
        """True if values differ in length and are searched for: all but numbers and times."""
        return self.quoted and self.name != _NUMBER_FIELD


class _Found(NamedTuple):
    places: dict[bytes, tuple[Places, Places]]
    """Where the values of each field begin and end."""
    stop: int


class Records(NamedTuple):
    """The records of a body, and where in it they are: after one bracket, before the other."""

    batch: pa.RecordBatch
    start: int
    stop: int


def decode_alike(body: bytes) -> Records | None:
    """Return the records if all of them look like the first, else None."""
    start = body.find(_ARRAY) + len(_ARRAY)
    fields = _fields_of_first(body, start)
    if fields is None:
        return None
    found = _find_values(body, start, fields)
    if found is None:
        return None
    places, stop = found
    try:
        data = _decoded(body, *places[b"Data"])
        if data is None:
            return None
        quoted = {
            field.name: texts(body, *places[field.name])
            for field in fields
            if field.any_length and field.name != b"Data"
        }
        if not all(_are_plain(values) for values in quoted.values()):
            return None
        columns = [
            quoted[b"PartitionKey"],
            data,
            _numbers(body, *places[_NUMBER_FIELD]),
            _times(body, *places[_TIME_FIELD]),
        ]
    except ValueError:  # bad base64, UTF-8 or number: the typed decoder names it
        return None
    return Records(pa.RecordBatch.from_arrays(columns, schema=KINESIS_COLUMNS), start, stop)


def _fields_of_first(body: bytes, start: int) -> list[_Field] | None:
    """Return the fields of the first record, or None for one that is not as expected."""
    if start < len(_ARRAY) or body[start : start + 1] != b"{":
        return None
    fields: list[_Field] = []
    before, place = b"{", start + 1
    while match := _FIELD.match(body, place):
        name, quote, after = match[1], match[2] or b"", match[3]
        fields.append(_Field(name, bool(quote), before + b'"' + name + b'":' + quote))
        before, place = after, match.end()
        if after == b"}":
            quoted = {field.name for field in fields if field.quoted}
            names = [field.name for field in fields]
            known = set(names) >= _FIELDS and len(names) == len(set(names))
            return fields if known and quoted == set(names) - {_TIME_FIELD} else None
    return None


def _find_values(body: bytes, start: int, fields: list[_Field]) -> _Found | None:
    """Find where each field's values begin and end, and where the records stop.

    A value ends where the next field's name is found, the last one where the next record begins.
    """
    first, last = fields[0], fields[-1]
    names = [*(field.literal for field in fields[1:]), b"}," + first.literal]
    closings = [b'"' * field.quoted + name for field, name in zip(fields, names, strict=True)]
    searched = [c for f, c in zip(fields, closings, strict=True) if f is last or f.any_length]
    found = dict(zip(searched, places_of_each(body, searched, start), strict=True))
    next_records = found[closings[-1]]
    begins = np.append(start + len(first.literal), next_records + len(closings[-1]))
    ending, end_of_all = -1, b'"' * last.quoted + b"}]"
    places: dict[bytes, tuple[Places, Places]] = {}
    for field, closing in zip(fields, closings, strict=True):
        if field is last:
            ending = body.find(end_of_all[:1], int(begins[-1]))
            ends = np.append(next_records, ending)
        elif field.any_length:
            ends = found[closing]
        elif field.quoted:
            ends = _as_long_as_first(body, begins, closing)
        else:
            ends = _ends_of_numbers(body, begins, closing)
        if len(ends) != len(begins) or (ends < begins).any():
            return None
        places[field.name] = begins, ends
        begins = ends + len(closing)
    if not body.startswith(end_of_all, ending):
        return None
    return _Found(places, ending + len(end_of_all) - 1)


def _as_long_as_first(body: bytes, begins: Places, closing: bytes) -> Places:
    """Return where texts end, if all are as long as the first, or else where a search finds it."""
    ends = begins + (body.find(b'"', int(begins[0])) - int(begins[0]))
    if stands_at(body, ends, closing).all():
        return ends
    return places_of_each(body, [closing], int(begins[0]))[0]


def _ends_of_numbers(body: bytes, begins: Places, closing: bytes) -> Places:
    """Return where numbers end: at the first comma, after which the next name must come."""
    fits = min(_LONGEST_NUMBER, len(body) - int(begins[-1]))
    bits = max(0, fits.bit_length() - 1)  # a power of two: dividing by others takes long
    commas = np.flatnonzero(windows_at(body, begins, 1 << bits) == closing[0])[::-1]
    lengths = np.zeros(len(begins), np.int64)
    lengths[commas >> bits] = commas & (1 << bits) - 1  # of many, the first is set last
    ends = begins + lengths
    return ends[stands_at(body, ends, closing)]


def _times(body: bytes, begins: Places, ends: Places) -> pa.Array:
    values = texts(body, begins, ends)
    if not _are_numbers(values):
        raise ValueError("a time is not a number as JSON writes it")
    return time_array(pc.cast(values, pa.float64()).to_numpy(), len(values))


def _are_numbers(values: pa.Array) -> bool:
    """Return true if Arrow accepts no more of these than JSON does: no "01", ".5", "5." or "1.e5".

    What is no number at all Arrow refuses, and "nan" and "inf" are no times.
    """
    offsets, text = offsets_and_bytes(values)
    starts, sizes = offsets[:-1], np.diff(offsets)
    if not sizes.all():
        return False
    first = text[starts]
    if not (are_digits(first) and are_digits(text[offsets[1:] - 1])):
        return False
    if first.min() == _ZERO:
        second = text[starts[(first == _ZERO) & (sizes > 1)] + 1]
        if (second - _ZERO <= _NINE - _ZERO).any():
            return False
    written = text.tobytes()
    return not any(e in written and b"." + e in written for e in (b"e", b"E"))


def _numbers(body: bytes, begins: Places, ends: Places) -> pa.Array:
    size = int(ends[0] - begins[0])
    if int((ends - begins).max()) > SEQUENCE_DIGITS:
        raise ValueError("a sequence number is too long")
    if size and (ends - begins == size).all():
        return digits(windows_at(body, begins, size))
    numbers = texts(body, begins, ends)
    if not (ends > begins).all() or not are_digits(offsets_and_bytes(numbers)[1]):
        raise ValueError("a sequence number is not of digits")
    return numbers


def _are_plain(values: pa.Array) -> bool:
    """Return true if every byte of the texts means itself: no escapes, quotes or controls."""
    _, text = offsets_and_bytes(values)
    return not ((text == _BACKSLASH) | (text == _QUOTE) | (text < _SPACE)).any()


def _decoded(body: bytes, begins: Places, ends: Places) -> pa.Array | None:
    """Decode all base64 in one go: once its padding is made digits, it is one long text."""
    lengths = ends - begins
    if (lengths & 3).any() or not lengths.all():
        return None
    text = np.frombuffer(copied_out(body, begins, ends).buffers()[2], np.uint8)[: lengths.sum()]
    stops = np.cumsum(lengths)
    padding = np.zeros(len(lengths), np.int64)
    padded = np.ones(len(lengths), bool)
    for from_end in (1, 2):
        last = stops - from_end
        padded &= text[last] == _PAD  # the second only before the first
        padding += padded
        text[last[padded]] = _DIGIT
    decoded = b64decode(text.data, validate=True)  # refuses any padding that is left
    stops = (stops >> 2) * 3
    return copied_out(decoded, stops - (lengths >> 2) * 3, stops - padding)
