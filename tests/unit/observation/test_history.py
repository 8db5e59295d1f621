"""Events between observations: reshards, hand-overs, workers, gaps; and what is kept of them."""

from __future__ import annotations

from shardline.observation.history import EVENTS_KEPT, TENURES_KEPT, History
from shardline.observation.observation import Observation
from tests.unit.observation.situations import START, Situation


def events_of(situation: Situation) -> list[tuple[str, str]]:
    return [(event.kind.value, event.text) for event in situation.snapshot().events]


def test_the_first_observation_has_no_events() -> None:
    situation = Situation(3)
    situation.take(situation.shard_ids()[0], "w1/a")
    assert events_of(situation) == []


def test_a_split_is_one_event_and_gives_its_shards_times() -> None:
    situation = Situation(1)
    situation.snapshot()
    situation.now += 30
    left, right = situation.split("shardId-000000000000")
    assert events_of(situation) == [("split", "…000 → …001 + …002")]
    parent, *children = situation.snapshot().shards
    assert parent.closed_at == START + 30
    assert [child.opened_at for child in children] == [START + 30, START + 30]
    assert [child.id for child in children] == [left, right]
    situation.now += 30
    assert situation.snapshot().shards[0].closed_at == START + 30


def test_a_merge_is_one_event() -> None:
    situation = Situation(2)
    situation.snapshot()
    situation.merge("shardId-000000000000", "shardId-000000000001")
    assert events_of(situation) == [("merged", "…000 + …001 → …002")]


def test_leases_are_taken_handed_over_released_and_finished() -> None:
    situation = Situation(1)
    shard = situation.shard_ids()[0]
    situation.snapshot()
    situation.take(shard, "w1/a")
    situation.snapshot()
    situation.now += 5
    situation.take(shard, "w2/b")
    situation.snapshot()
    situation.now += 5
    situation.release(shard)
    situation.snapshot()
    situation.take(shard, "w1/c")
    situation.snapshot()
    situation.split(shard)
    situation.drain(shard)
    assert [event for event in events_of(situation) if event[0] not in ("joined", "left")] == [
        ("taken", "w1 took …000"),
        ("handed over", "…000: w1 → w2"),
        ("released", "w2 released …000"),
        ("taken", "w1 took …000"),
        ("split", "…000 → …001 + …002"),
        ("drained", "…000 read to the end by w1"),
    ]
    tenures = situation.snapshot().shards[0].tenures
    assert [(t.owner, t.epoch, t.since - START) for t in tenures] == [
        (None, 0, 0),
        ("w1/a", 1, 0),
        ("w2/b", 2, 5),
        (None, 2, 10),
        ("w1/c", 3, 10),
        (None, 3, 10),
    ]


def test_reads_name_the_reader_and_the_time() -> None:
    situation = Situation(1)
    shard = situation.shard_ids()[0]
    situation.take(shard, "w1/a")
    situation.lags[shard] = 50.0

    def reads() -> list[tuple[str | None, float]]:
        return [(r.owner, r.upto - START) for r in situation.snapshot().shards[0].reads]

    assert reads() == [(None, -50)]  # before observation began: by whom is not known
    situation.now += 10
    situation.lags[shard] = 5.0
    assert reads() == [(None, -50), ("w1/a", 5)]
    situation.take(shard, "w2/b")
    situation.now += 10
    assert reads() == [(None, -50), ("w1/a", 5), ("w2/b", 15)]
    situation.now += 10
    situation.lags[shard] = 90.0  # what was read stays read
    assert reads() == [(None, -50), ("w1/a", 5), ("w2/b", 15)]
    situation.split(shard)
    situation.snapshot()
    situation.now += 40
    situation.drain(shard)
    del situation.lags[shard]
    assert reads() == [(None, -50), ("w1/a", 5), ("w2/b", 30)]


def test_many_equal_changes_are_one_event() -> None:
    situation = Situation(120)
    situation.snapshot()
    for shard_id in situation.shard_ids():
        situation.take(shard_id, "w1/a")
    assert ("taken", "w1 took …000, …001, …002 and 117 more") in events_of(situation)


def test_a_worker_joins_falls_silent_and_leaves() -> None:
    situation = Situation(1)
    situation.snapshot()
    situation.beat("w1/a")
    situation.snapshot()
    for _ in range(4):
        situation.now += 4
        situation.snapshot()
    situation.beat("w1/a")
    assert situation.snapshot().workers[0].silent_seconds == 0
    situation.leave("w1/a")
    assert events_of(situation) == [
        ("joined", "w1 joined"),
        ("silent", "w1 has been silent for 12 s"),
        ("left", "w1 left"),
    ]


def test_a_gap_is_one_event() -> None:
    situation = Situation(1)
    situation.snapshot()
    situation.lose(situation.shard_ids()[0], "records after 7 are gone")
    situation.snapshot()
    assert events_of(situation) == [("gap", "…000: records after 7 are gone")]


def test_a_shard_that_is_halted_is_one_event() -> None:
    situation = Situation(1)
    situation.snapshot()
    situation.halt(situation.shard_ids()[0], "its consumer raised")
    situation.snapshot()
    assert events_of(situation) == [("halted", "…000: its consumer raised")]


def test_memory_is_bounded() -> None:
    situation = Situation(1)
    shard = situation.shard_ids()[0]
    for turn in range(300):
        situation.take(shard, f"w{turn}/a")
        situation.snapshot()
    assert len(situation.snapshot().events) == EVENTS_KEPT
    assert len(situation.snapshot().shards[0].tenures) == TENURES_KEPT


def test_without_an_application_there_are_no_tenures() -> None:
    history = History("kinesis://orders")
    situation = Situation(2)
    shards = tuple(situation._shards.values())
    snapshot = history.add(Observation(START, shards))
    assert all(shard.tenures == () and shard.state == "open" for shard in snapshot.shards)


def test_the_lag_of_a_shard_is_at_most_its_age() -> None:
    situation = Situation(1)
    (parent,) = situation.shard_ids()
    situation.take(parent, "w1/a")
    situation.lags[parent] = 90
    assert situation.snapshot().shards[0].lag_seconds == 90
    children = situation.split(parent)
    situation.snapshot()
    situation.drain(parent)
    for child in children:
        situation.take(child, "w1/a")
        situation.lags[child] = 90  # as far as the parent was
    situation.now += 3
    assert [shard.lag_seconds for shard in situation.snapshot().shards[1:]] == [3, 3]
