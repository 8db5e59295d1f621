"""Views of shards, workers and gaps, made from one observation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shardline.core.leasing.rows import Heartbeat, LeaseRow
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import HashRange, SequenceNumber, Shard
from shardline.observation.observation import Observation
from shardline.observation.views import gap_views, position_text, shard_views, worker_views

NOW = 1_800_000_000.0
CREATED = datetime.fromtimestamp(NOW - 3600, UTC)
PARENT = Shard("p", last=SequenceNumber("9"), hash_range=HashRange(0, 2**128 - 1))
LEFT = Shard("l", ("p",), HashRange(0, 2**127 - 1))
RIGHT = Shard("r", ("p",), HashRange(2**127, 2**128 - 1))


def row(shard_id: str, **fields: object) -> LeaseRow:
    return replace(LeaseRow("app", "orders", shard_id, CREATED), **fields)  # type: ignore[arg-type]


def test_without_an_application_shards_are_open_or_closed() -> None:
    views = shard_views(Observation(NOW, (PARENT, LEFT, RIGHT), CREATED.timestamp()))
    assert [(v.id, v.state, v.share) for v in views] == [
        ("p", "closed", 1.0),
        ("l", "open", 0.5),
        ("r", "open", 0.5),
    ]
    assert views[0].opened_at == CREATED.timestamp()


def test_with_leases_a_child_waits_for_its_parent_and_the_owner_is_shown() -> None:
    as_of = datetime.fromtimestamp(NOW - 30, UTC)
    rows = (
        row("p", lease_owner="w1/x", epoch=3, as_of=as_of, checkpoint=After(SequenceNumber("5"))),
    )
    parent, left, _ = shard_views(Observation(NOW, (PARENT, LEFT, RIGHT), rows=rows))
    assert (parent.state, parent.owner, parent.epoch, parent.lag_seconds) == (
        "readable",
        "w1/x",
        3,
        30,
    )
    assert parent.checkpoint == "after 5"
    assert (left.state, left.waits_for) == ("waiting", ("p",))


def test_a_drained_parent_lets_its_children_go_and_has_no_lag() -> None:
    rows = (row("p", completed=True, checkpoint=SHARD_END, epoch=1, as_of=CREATED),)
    parent, left, right = shard_views(Observation(NOW, (PARENT, LEFT, RIGHT), rows=rows))
    assert (parent.state, parent.lag_seconds) == ("drained", None)
    assert left.state == right.state == "readable"


def test_a_known_unfinished_shard_that_is_not_listed_is_still_shown() -> None:
    rows = (row("lost", epoch=1), row("done", completed=True))
    assert [(v.id, v.state) for v in shard_views(Observation(NOW, (), rows=rows))] == [
        ("lost", "undiscovered")
    ]


def test_a_halted_shard_is_shown_with_its_reason() -> None:
    rows = (row("l", halted="its consumer raised ValueError", epoch=2),)
    (left,) = shard_views(Observation(NOW, (replace(LEFT, parents=()),), rows=rows))
    assert (left.state, left.halted) == ("halted", "its consumer raised ValueError")


def test_the_lag_of_an_owned_shard_is_what_its_owner_reported() -> None:
    """A shard without news reports rarely: the time since then is no lag."""
    as_of = datetime.fromtimestamp(NOW - 500, UTC)
    root = replace(LEFT, parents=())
    for owner, lag in (("w/1", 1.5), (None, 500.0)):
        rows = (row("l", lease_owner=owner, lag_ms=1500, as_of=as_of, epoch=1),)
        assert shard_views(Observation(NOW, (root,), rows=rows))[0].lag_seconds == lag


def test_the_rate_of_a_worker_is_that_of_its_heartbeat_unless_it_was_measured() -> None:
    beat = Heartbeat("app", "orders", "a/1", records_per_second=7)
    rows = (row("l", lease_owner="a/1", epoch=1),)
    for measured, rate in (({}, 7), ({"l": 3.0}, 3.0)):
        seen = Observation(NOW, (LEFT,), rows=rows, heartbeats=(beat,), records_per_second=measured)
        (worker,) = worker_views(seen, shard_views(seen), {})
        assert worker.records_per_second == rate


def test_workers_are_those_who_hold_and_those_who_beat() -> None:
    observation = Observation(
        NOW,
        (LEFT, RIGHT),
        rows=(row("l", lease_owner="a/1", epoch=1), row("r", lease_owner="a/1", epoch=1)),
        heartbeats=(Heartbeat("app", "orders", "b/2", leaving=True),),
        lag_seconds={"l": 4.0, "r": 9.0},
        records_per_second={"l": 1.5, "r": 2.0},
    )
    a, b = worker_views(observation, shard_views(observation), {"b/2": 12.0})
    assert (a.name, a.held, a.lag_seconds, a.records_per_second) == ("a/1", 2, 9.0, 3.5)
    assert (b.name, b.held, b.leaving, b.silent_seconds) == ("b/2", 0, True, 12.0)


def test_gaps_are_those_that_the_rows_record() -> None:
    observation = Observation(NOW, (LEFT,), rows=(row("l", gap="5 records"), row("r")))
    assert [(g.shard_id, g.text) for g in gap_views(observation)] == [("l", "5 records")]


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (TRIM_HORIZON, "trim_horizon"),
        (SHARD_END, "shard_end"),
        (AtTime(CREATED), "at 2027-01-15T07:00:00+00:00"),
        (After(SequenceNumber("5")), "after 5"),
        (After(SequenceNumber("5"), 2), "after 5/2"),
    ],
)
def test_positions_read_as_people_write_them(position: Position, text: str) -> None:
    assert position_text(position) == text
