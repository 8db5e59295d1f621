"""What may be acknowledged, and how positions are kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.checkpoints import (
    damage_named,
    further,
    position_from_json,
    position_from_text,
    position_to_json,
    position_to_text,
    read_document,
    write_document,
)
from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition

sequences = st.integers(0, 10**129 - 1).map(lambda n: SequenceNumber(f"{n:021}"))
positions: st.SearchStrategy[Position] = st.one_of(
    st.sampled_from([TRIM_HORIZON, LATEST, SHARD_END]),
    st.datetimes(timezones=st.just(UTC)).map(AtTime),
    st.builds(After, sequences, st.none() | st.integers(0, 1000)),
)


def after(number: int, sub: int | None = None) -> After:
    return After(SequenceNumber(str(number)), sub)


@given(positions)
def test_a_position_survives_json(position: Position) -> None:
    again = position_from_json(json.loads(json.dumps(position_to_json(position))))
    assert again == position
    assert position_to_json(again) == position_to_json(position)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "TRIM",
        7,
        {},
        {"after": 7},
        {"after": "x"},
        {"after": "1", "sub": True},
        {"after": "1", "sub": -2},
        {"after": "1", "more": 1},
        {"after": "1" * 130},
        {"at_time": "noon"},
        {"at_time": "2026-01-01T00:00:00"},
    ],
)
def test_what_is_no_position_is_refused(value: object) -> None:
    with pytest.raises(InvalidPosition):
        position_from_json(value)


@given(positions)
def test_a_position_survives_as_text(position: Position) -> None:
    assert position_from_text(position_to_text(position)) == position


@pytest.mark.parametrize("text", ["", "{", "7", '{"after":"x"}', "[" * 100_000])
def test_a_damaged_text_is_one_line(text: str) -> None:
    with pytest.raises(InvalidPosition) as caught:
        position_from_text(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("error", [KeyError("shards"), TypeError(), ValueError(), AttributeError()])
def test_what_a_damaged_document_raises_becomes_one_line(error: Exception) -> None:
    with pytest.raises(InvalidPosition, match="this token is damaged"), damage_named("token"):
        raise error


def test_equal_documents_are_equal_texts() -> None:
    assert write_document("offset", {"b": 1, "a": 2}) == write_document("offset", {"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"shardline":' + "1" * 5000 + "}", "is not JSON"),
        ('{"TRIM_HORIZON": 1}', "written by another tool"),
        ('{"shardline":"offset","version":1}', "this is the offset of shardline, not a token"),
        ('{"shardline":"token","version":99}', "has version 99 and this shardline reads version 1"),
        ("[]", "lacks the field"),
    ],
)
def test_a_foreign_document_is_refused_by_what_it_is(text: str, message: str) -> None:
    with pytest.raises(InvalidPosition, match=message):
        read_document("token", text)


def test_a_document_is_read_from_text_and_from_its_value() -> None:
    text = write_document("token", {"shards": {}})
    assert (
        read_document("token", text) == read_document("token", json.loads(text)) == {"shards": {}}
    )


@pytest.mark.req("K-52")
@pytest.mark.case("L-09", "R-09")
@given(positions)
def test_the_end_of_a_shard_is_final(position: Position) -> None:
    assert further(SHARD_END, position) == SHARD_END
    assert further(position, SHARD_END) == SHARD_END


@pytest.mark.req("O-08", "K-09")
def test_a_checkpoint_never_moves_back() -> None:
    assert further(after(10), after(9)) == after(10)
    assert further(after(9), after(10)) == after(10)
    assert further(None, after(1)) == after(1)
    assert further(TRIM_HORIZON, after(1)) == after(1)
    assert further(after(1), AtTime(datetime(2026, 1, 1, tzinfo=UTC))) == after(1)


@pytest.mark.case("R-08")
def test_a_checkpoint_inside_an_aggregated_record_lies_before_the_whole_record() -> None:
    assert further(after(5, 3), after(5, 2)) == after(5, 3)
    assert further(after(5, 3), after(5)) == after(5)
    assert further(after(5), after(5, 3)) == after(5)
    assert further(after(5), after(6, 0)) == after(6, 0)
