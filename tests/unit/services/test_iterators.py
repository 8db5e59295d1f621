"""Positions as GetShardIterator wants them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition
from shardline.services.iterators import iterator_parameters

NUMBER = SequenceNumber("0042")
TIME = datetime(2026, 11, 15, 0, 0, 0, 123_001, UTC)


@pytest.mark.parametrize(
    ("position", "kind", "more"),
    [
        (TRIM_HORIZON, "TRIM_HORIZON", {}),
        (LATEST, "LATEST", {}),
        (After(NUMBER), "AFTER_SEQUENCE_NUMBER", {"StartingSequenceNumber": "0042"}),
        (After(NUMBER, 3), "AT_SEQUENCE_NUMBER", {"StartingSequenceNumber": "0042"}),
        (AtTime(TIME), "AT_TIMESTAMP", {"Timestamp": TIME.replace(microsecond=124_000)}),
    ],
)
def test_each_position_has_its_type_of_iterator(
    position: Position, kind: str, more: dict[str, object]
) -> None:
    assert iterator_parameters("s", position) == {"ShardIteratorType": kind, **more}


def test_each_service_has_its_own_name_for_the_number() -> None:
    assert iterator_parameters("s", After(NUMBER), "SequenceNumber")["SequenceNumber"] == "0042"


def test_the_end_of_a_shard_cannot_be_opened() -> None:
    with pytest.raises(InvalidPosition, match="s was read to its end"):
        iterator_parameters("s", SHARD_END)
