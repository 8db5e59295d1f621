"""Python values come back from DynamoDB's form as they went in, or are refused."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shardline.tables.items import decode, encode


class Colour(Enum):
    RED = "red"


class Tone(str, Enum):  # noqa: UP042 - a StrEnum prints as its value, this one does not
    LOW = "low"


class Size(IntEnum):
    BIG = 3


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        ("text", {"S": "text"}),
        ("", {"S": ""}),
        (5, {"N": "5"}),
        (-(10**37), {"N": "-" + "1" + "0" * 37}),
        (Decimal("1.50"), {"N": "1.50"}),
        (0.5, {"N": "0.5"}),
        (True, {"BOOL": True}),
        (None, {"NULL": True}),
        (b"\x00\xff", {"B": b"\x00\xff"}),
        ([1, "a", []], {"L": [{"N": "1"}, {"S": "a"}, {"L": []}]}),
        ({"a": {"b": 1}}, {"M": {"a": {"M": {"b": {"N": "1"}}}}}),
        ({"b", "a"}, {"SS": ["a", "b"]}),
        ({1, 2}, {"NS": ["1", "2"]}),
        ({b"a"}, {"BS": [b"a"]}),
    ],
)
def test_what_dynamodb_knows_is_written_as_it_is_and_read_back(
    value: Any, attribute: dict[str, Any]
) -> None:
    assert encode(value) == attribute
    assert decode(attribute) == value


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        (UUID(int=1), {"S": "00000000-0000-0000-0000-000000000001"}),
        (Colour.RED, {"S": "red"}),
        (Size.BIG, {"N": "3"}),
        (Tone.LOW, {"S": "low"}),
        (date(2026, 1, 2), {"S": "2026-01-02"}),
        (timedelta(seconds=90), {"S": "PT1M30S"}),
        ((1, 2), {"L": [{"N": "1"}, {"N": "2"}]}),
        ({UUID(int=1)}, {"SS": ["00000000-0000-0000-0000-000000000001"]}),
        ({1: "a", Colour.RED: "b"}, {"M": {"1": {"S": "a"}, "red": {"S": "b"}}}),
        (set(), {"L": []}),
        (
            datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
            {"S": "2026-01-02T01:00:00.000000Z"},
        ),
    ],
)
def test_everything_else_has_a_form_that_pydantic_reads(
    value: Any, attribute: dict[str, Any]
) -> None:
    assert encode(value) == attribute


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "the number nan"),
        (math.inf, "the number inf"),
        (5e-324, "outside"),
        (1e126, "outside"),
        (Decimal(10) ** -131, "outside"),
        (int("1" * 39), "38"),
        (Decimal("0." + "1" * 39), "38"),
        (datetime(2026, 1, 2), "time zone"),
        ({1, "a"}, "only texts"),
        ({True}, "only texts"),
        ({(1,)}, "only texts"),
        ({"": 1}, "not allow empty names"),
        (object(), "cannot store a object"),
        (SecretStr("x"), "asterisks"),
    ],
)
def test_what_dynamodb_would_change_is_refused(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        encode(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_comes_back_as_the_same_float_or_is_refused(value: float) -> None:
    if value != 0 and not 1e-130 <= abs(value) < 1e126:
        with pytest.raises(ValueError, match="outside"):
            encode(value)
    else:
        assert float(decode(encode(value))) == value


@given(st.integers())
def test_a_whole_number_comes_back_as_an_int_or_is_refused(value: int) -> None:
    if len(str(abs(value)).rstrip("0")) > 38:
        with pytest.raises(ValueError, match="digits"):
            encode(value)
    else:
        decoded = decode(encode(value))
        assert (type(decoded), decoded) == (int, value)


@given(st.datetimes(timezones=st.timezones()))
def test_a_time_comes_back_as_the_same_moment_and_sorts_as_text(value: datetime) -> None:
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        with pytest.raises(ValueError, match="outside of the years"):
            encode(value)
        return
    text = encode(value)["S"]
    new_year = datetime(2026, 1, 1, tzinfo=UTC)
    assert datetime.fromisoformat(text) == moment
    assert (text < encode(new_year)["S"]) == (moment < new_year)


@given(st.binary())
def test_bytes_are_read_from_a_client_and_from_json_alike(data: bytes) -> None:
    assert decode({"B": data}) == data
    in_json = json.loads(json.dumps({"B": b64encode(data).decode()}))
    assert decode(in_json) == data
    assert decode({"BS": [b64encode(data).decode()]}) == {data}


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no values of type 'X'"):
        decode({"X": "1"})
