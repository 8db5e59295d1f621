"""Where reading begins."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime
from shardline.core.shards import SequenceNumber, Shard
from shardline.core.starts import begin, begin_at_time, begin_later

CLOSED = Shard("closed", last=SequenceNumber("9"))
OPEN = Shard("open", ("closed",))
CHILD = Shard("child", ("open",))
NOON = AtTime(datetime(2026, 11, 15, 12, tzinfo=UTC))


@pytest.mark.req("O-12", "K-38")
def test_a_stateful_start_takes_every_shard_from_its_start() -> None:
    beginning = begin([CLOSED, OPEN], TRIM_HORIZON)
    assert beginning.positions == {"closed": TRIM_HORIZON, "open": TRIM_HORIZON}
    assert beginning.skipped == frozenset()


@pytest.mark.req("O-17", "O-20")
def test_latest_skips_what_was_closed_before() -> None:
    beginning = begin([CLOSED, OPEN], LATEST)
    assert beginning.positions == {"open": LATEST}
    assert beginning.skipped == {"closed"}


@pytest.mark.req("O-21")
@pytest.mark.case("L-12", "L-20")
def test_latest_takes_the_child_of_an_open_shard_from_its_beginning() -> None:
    assert begin([OPEN, CHILD], LATEST).positions == {"open": LATEST, "child": TRIM_HORIZON}


def test_a_time_is_for_every_shard() -> None:
    assert begin([CLOSED, OPEN], NOON).positions == {"closed": NOON, "open": NOON}


@pytest.mark.req("O-21")
@pytest.mark.case("L-20")
@pytest.mark.parametrize("start", [TRIM_HORIZON, LATEST, NOON])
def test_a_shard_that_appears_later_begins_at_its_beginning(start: object) -> None:
    later = begin_later([OPEN, CHILD], {"open"}, start)  # type: ignore[arg-type]
    assert later.positions == {"child": TRIM_HORIZON}
    assert later.skipped == frozenset()


@pytest.mark.req("O-20")
def test_an_ancestor_that_shows_up_late_is_behind_an_ephemeral_consumer() -> None:
    late = begin_later([CLOSED, OPEN], {"open"}, LATEST)
    assert late.positions == {}
    assert late.skipped == {"closed"}
    assert begin_later([CLOSED, OPEN], {"open"}, TRIM_HORIZON).positions == {"closed": TRIM_HORIZON}


@pytest.mark.req("O-20", "O-21")
def test_a_resolved_start_at_latest_skips_what_was_closed_before_and_nothing_else() -> None:
    listed = [CLOSED, replace(OPEN, last=SequenceNumber("9")), CHILD]
    resolved = begin_at_time(listed, NOON, skipped=frozenset({"closed"}), known=set())
    assert resolved == {"open": NOON, "child": TRIM_HORIZON}
    unknown = begin_at_time(listed, NOON, skipped=None, known=set())
    assert unknown == {"closed": NOON, "open": NOON, "child": NOON}
    unknown = begin_at_time(listed, NOON, skipped=None, known={"open"})
    assert unknown == {"closed": NOON, "open": NOON, "child": TRIM_HORIZON}
