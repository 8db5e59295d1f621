"""What a runner tells its keeper, and waits for, when a consumer fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from shardline.consumer.messages import Acknowledged, KeyIsParked, KeyParked
from shardline.consumer.policies import DeadLetter, FailurePolicy
from shardline.observation.dead_letter_reader import open_letters
from shardline.services.access import Access
from tests.unit.consumer.stage import STREAM, Keeping, Stage

if TYPE_CHECKING:
    from pathlib import Path

    from shardline.consumer.consumer import ShardBatch


class Parking(Keeping):
    failure: ClassVar[FailurePolicy]


def fails_on_bad(batch: ShardBatch) -> bool:
    return any(record.data == b"bad" for record in batch.records)


@pytest.mark.case("R-01")
@pytest.mark.req("K-45")
def test_nothing_is_acknowledged_before_the_keeper_has_parked_the_key(tmp_path: Path) -> None:
    Parking.failure = DeadLetter(f"file://{tmp_path}/letters", per="key", attempts=1)
    stage = Stage(Parking)
    Keeping.fails = fails_on_bad
    (shard_id,) = stage.shard_ids
    for record_key, data in (("a", b"1"), ("b", b"bad"), ("b", b"2"), ("a", b"3")):
        stage.twin.put(record_key, data)
    key = stage.start(shard_id)
    stage.run(10)
    asked = stage.reports(KeyParked)
    assert {(one.key, one.record_key) for one in asked} == {(key, "b")}
    assert len(asked) > 1  # again, until there is an answer
    assert stage.reports(Acknowledged) == []

    stage.runner.handle(KeyIsParked(key, "b"))
    stage.run(10)
    assert stage.acknowledged() is not None
    assert stage.processed()[-1] == b"3"
    letters = open_letters(f"file://{tmp_path}/letters", Access()).read_all().letters()
    assert [(x.app, x.stream, x.key, x.payload, x.parked) for x in letters] == [
        ("app", STREAM, "b", b"bad", True), ("app", STREAM, "b", b"2", True),
    ]  # fmt: skip
    assert asked[0].letter_id == letters[0].id


@pytest.mark.case("R-01")
def test_keys_that_are_parked_at_the_start_are_not_tried(tmp_path: Path) -> None:
    Parking.failure = DeadLetter(f"file://{tmp_path}/letters", per="key", attempts=1)
    stage = Stage(Parking)
    (shard_id,) = stage.shard_ids
    stage.twin.put("b", b"1")
    stage.twin.put("a", b"2")
    stage.start(shard_id, parked=frozenset({"b"}))
    stage.run(3)
    assert stage.processed() == [b"2"]
    assert stage.acknowledged() is not None
