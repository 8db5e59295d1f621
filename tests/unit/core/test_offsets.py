"""An offset is self-contained, sorted, and survives Spark's logs as text."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.gaps import Gap
from shardline.core.offsets import Mark, Offset, Range, whole_hour
from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition

TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)).map(
    lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)
)
NUMBERS = st.integers(0, 10**128).map(lambda n: SequenceNumber(str(n)))
POSITIONS: st.SearchStrategy[Position] = st.one_of(
    st.just(TRIM_HORIZON),
    TIMES.map(AtTime),
    NUMBERS.map(After),
    st.builds(After, NUMBERS, st.integers(-1, 500)),
)
RANGES = st.builds(Range, POSITIONS, st.one_of(POSITIONS, st.just(SHARD_END)), st.none() | TIMES)
IDS = st.integers(0, 99).map("shardId-{:012d}".format)
OFFSETS = st.builds(
    Offset,
    st.sampled_from([TRIM_HORIZON, LATEST]),
    st.none() | TIMES,
    st.dictionaries(IDS, RANGES, max_size=8),
    st.dictionaries(IDS, st.builds(Mark, st.none() | TIMES, TIMES.map(whole_hour)), max_size=8),
    st.lists(st.builds(Gap, IDS, POSITIONS, TIMES, TIMES, st.text())).map(tuple),
    st.none() | st.just("arn:aws:kinesis:us-east-1:000000000000:stream/orders"),
)


@given(OFFSETS)
def test_an_offset_comes_back_from_its_text(offset: Offset) -> None:
    text = json.dumps(offset.to_json())
    assert Offset.from_json(json.loads(text)) == offset
    assert text == json.dumps(json.loads(text), sort_keys=True)


@pytest.mark.case("Y-08")
def test_an_offset_of_ten_thousand_open_and_ten_thousand_drained_shards_is_small() -> None:
    now = datetime(2030, 1, 1, 12, tzinfo=UTC)
    chance = random.Random(7)
    places = (After(SequenceNumber(f"4966{chance.randrange(10**52):052}")) for _ in range(10_000))
    offset = Offset(
        TRIM_HORIZON,
        now,
        {f"shardId-{n:012}": Range(p, p, now) for n, p in enumerate(places, 10_000)},
        {f"shardId-{n:012}": Mark(None, now) for n in range(10_000)},
    )
    text = json.dumps(offset.to_json())
    assert Offset.from_json(json.loads(text)) == offset
    assert len(text) < 400_000  # of which the random digits of the numbers alone take 300 kB


@pytest.mark.parametrize(
    "value",
    [
        {"shardline": "offset", "version": 1},
        {},
        {"shardline": "token", "version": 1},
        {"a": 1},
        [],
        "x",
    ],
)
def test_what_is_no_offset_of_ours_is_refused(value: object) -> None:
    with pytest.raises(InvalidPosition):
        Offset.from_json(value)
