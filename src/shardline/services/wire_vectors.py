"""The records of a big Kinesis body all at once: positions found by numpy, values moved by Arrow.

Every record of a body usually looks like the first: the same fields in the same order, no spaces,
no escapes. Where that is so, the positions of the quotes say where each value lies. All of it is
verified, and whatever does not fit is left to the typed decoder, so both always agree.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pybase64 import b64decode

from shardline.services.columns import KINESIS_COLUMNS
from shardline.services.spans import Places, copied_out, stands_at, texts
from shardline.services.wire import times

_ARRAY: Final = b'"Records":['
_FIELD: Final = re.compile(rb'"([A-Za-z]+)":(?:(")[^"\\]*"|[-+.0-9eE]+)([,}])')
_TIME_FIELD: Final = b"ApproximateArrivalTimestamp"
_FIELDS: Final = {b"PartitionKey", b"Data", b"SequenceNumber", _TIME_FIELD}
_QUOTE: Final = ord('"')
_PAD: Final = ord("=")
_BACKSLASH: Final = ord("\\")
_DIGIT: Final = ord("A")


class _Field(NamedTuple):
    name: bytes
    quoted: bool
    literal: bytes
    """What stands before the value, from the brace or comma before the name on."""


class Records(NamedTuple):
    """The records of a body, and where in it they stand: behind the bracket, before the other."""

    batch: pa.RecordBatch
    start: int
    stop: int


def decode_alike(body: bytes) -> Records | None:
    """Decode the records if all of them look like the first, else return None."""
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
            if field.quoted and field.name != b"Data"
        }
        if any(_has_escapes(values) for values in quoted.values()):
            return None
        columns = [
            quoted[b"PartitionKey"],
            data,
            quoted[b"SequenceNumber"],
            _times(body, *places[_TIME_FIELD]),
        ]
    except ValueError:  # bad base64, UTF-8 or number: the typed decoder says what is wrong
        return None
    return Records(pa.RecordBatch.from_arrays(columns, schema=KINESIS_COLUMNS), start, stop)


def _fields_of_first(body: bytes, start: int) -> list[_Field] | None:
    """Read the shape of the first record, or return None for one that is not as expected."""
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


def _find_values(
    body: bytes, start: int, fields: list[_Field]
) -> tuple[dict[bytes, tuple[Places, Places]], int] | None:
    """Find where each field's values begin and end, and where the records stop."""
    bytes_ = np.frombuffer(body, np.uint8)
    quotes = np.flatnonzero(bytes_[start:] == _QUOTE) + start
    # A record's quotes in order: two around each name, then two around each value that has any.
    per_record = sum(4 if field.quoted else 2 for field in fields)
    closings = list(accumulate((4 if field.quoted else 2 for field in fields), initial=-1))[1:]
    names = [0, *(closing + 1 for closing in closings[:-1])]
    # What follows the records has quotes too; its rows fail the check, and end the records.
    rows = quotes[: len(quotes) // per_record * per_record].reshape(-1, per_record)
    good = np.ones(len(rows), bool)
    for field, name, closing in zip(fields, names, closings, strict=True):
        good &= stands_at(body, rows[:, name] - 1, field.literal)
        if field.quoted:
            good &= rows[:, closing - 1] - rows[:, name] == len(field.literal) - 2
    for (field, closing), name in zip(zip(fields, closings, strict=True), names[1:], strict=False):
        if field.quoted:
            good &= rows[:, name] - rows[:, closing] == 2
    count = len(rows) if good.all() else int(np.argmin(good))
    rows = rows[:count]
    last, closing = fields[-1], closings[-1]
    # Every record but the last ends three bytes before the next one's first name: `},{"`.
    ending = body.find(b"}", int(rows[-1, closing]) + 1)
    ends = np.append(rows[1:, 0] - 3, ending)
    if body[ending + 1 : ending + 2] != b"]" or not stands_at(body, ends[:-1], b"},").all():
        return None
    if last.quoted and not (ends - rows[:, closing] == 1).all():
        return None
    places: dict[bytes, tuple[Places, Places]] = {}
    for index, (field, name) in enumerate(zip(fields, names, strict=True)):
        begin = rows[:, name] + len(field.literal) - 1
        if field.quoted:
            places[field.name] = begin, rows[:, closings[index]]
        else:
            following = ends if field is last else rows[:, names[index + 1]] - 1
            places[field.name] = begin, following
    return places, ending + 1


def _times(body: bytes, begins: Places, ends: Places) -> pa.Array:
    seconds = pc.cast(texts(body, begins, ends), pa.float64())
    return times(seconds.to_numpy(), len(seconds))


def _has_escapes(values: pa.Array) -> bool:
    """Say whether a backslash stands anywhere: what follows it is not what it seems."""
    _, offsets, data = values.buffers()
    size = int(np.frombuffer(offsets, np.int32)[len(values)])
    return bool((np.frombuffer(data, np.uint8, size) == _BACKSLASH).any())


def _decoded(body: bytes, begins: Places, ends: Places) -> pa.Array | None:
    """Decode all base64 in one go: once its padding is made digits, it is one long text."""
    lengths = ends - begins
    if (lengths % 4).any() or not lengths.all():
        return None
    text = np.frombuffer(copied_out(body, begins, ends).buffers()[2], np.uint8)[: lengths.sum()]
    stops = np.cumsum(lengths)
    padding = np.zeros(len(lengths), np.int64)
    for from_end in (1, 2):
        padded = stops[text[stops - from_end] == _PAD] - from_end
        padding += text[stops - from_end] == _PAD
        text[padded] = _DIGIT
    decoded = b64decode(text.data, validate=True)  # refuses any padding that is left
    stops = stops // 4 * 3
    return copied_out(decoded, stops - lengths // 4 * 3, stops - padding)
