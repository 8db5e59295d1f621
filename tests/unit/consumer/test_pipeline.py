"""One shard's pipeline: stopped until its lease is held, in order, acknowledged, closed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.consumer.job import PipelineLimits
from shardline.consumer.messages import (
    Acknowledged,
    ConsumerCalled,
    ConsumerReturned,
    GapFound,
    PipelineBlocked,
    PipelineFailed,
    PipelineFinished,
    PipelineHalted,
    PipelineStalled,
    ShardProcessed,
)
from shardline.consumer.policies import Halt, Retry
from shardline.consumer.rates import Rates
from shardline.core.positions import After
from tests.unit.consumer.stage import Keeping, Stage

if TYPE_CHECKING:
    from shardline.consumer.consumer import ShardBatch


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last)]


def put(stage: Stage, first: int, last: int, hash_key: int = 5) -> After:
    written = [stage.twin.put("key", data, hash_key=hash_key) for data in numbers(first, last)]
    return After(written[-1].sequence)


@pytest.mark.req("K-08", "K-33", "K-35")
def test_nothing_is_read_before_the_lease_is_held_and_all_of_it_after() -> None:
    stage = Stage()
    put(stage, 0, 10)
    stage.run()
    assert stage.reads == 0
    stage.start(stage.shard_ids[0])
    stage.run()
    assert stage.processed() == numbers(0, 10)


def test_an_empty_page_before_the_tip_costs_no_wait() -> None:
    stage = Stage(limits=PipelineLimits(batch_records=3, read_ahead_records=3, poll_seconds=60.0))
    stage.twin.account.settings.empty_page_every = 2
    put(stage, 0, 9)
    stage.twin.clock.advance(1)
    stage.start(stage.shard_ids[0])
    stage.run(5)
    assert stage.processed() == numbers(0, 9)
    reads = stage.reads
    stage.run(50)
    assert stage.reads <= reads + 1, "at the tip it waits"


@pytest.mark.req("K-36", "K-38", "K-40", "K-41", "K-42", "K-45")
def test_every_record_reaches_the_consumer_in_order_and_is_acknowledged() -> None:
    stage = Stage(limits=PipelineLimits(batch_records=3))
    first = put(stage, 0, 10)
    stage.start(stage.shard_ids[0])
    stage.run()
    assert stage.acknowledged() == first
    last = put(stage, 10, 20)
    stage.run()
    assert stage.processed() == numbers(0, 20)
    assert stage.acknowledged() == last
    assert all(len(call[3]) <= 3 for call in stage.calls if call[0] == "process")


@pytest.mark.req("K-10", "K-37", "K-39")
def test_a_start_at_a_checkpoint_reads_strictly_after_it() -> None:
    stage = Stage()
    checkpoint = put(stage, 0, 4)
    put(stage, 4, 9)
    stage.start(stage.shard_ids[0], checkpoint=checkpoint)
    stage.run()
    assert stage.processed() == numbers(4, 9)


@pytest.mark.req("K-45")
@pytest.mark.case("R-03", "L-06")
def test_what_was_read_and_not_processed_is_never_acknowledged() -> None:
    stage = Stage(limits=PipelineLimits(batch_records=2))
    put(stage, 0, 10)
    Keeping.fails = lambda batch: b"4" in [bytes(r.data) for r in batch.records]
    stage.start(stage.shard_ids[0])
    stage.run(60)
    acknowledged = stage.acknowledged()
    assert isinstance(acknowledged, After)
    records = stage.twin.read(stage.twin.open(stage.shard_ids[0], acknowledged), 10).records
    assert records.column("data")[0].as_py() == b"4"


@pytest.mark.case("X-14")
def test_each_try_has_a_fence_of_its_own() -> None:
    stage = Stage()
    put(stage, 0, 2)
    tries = iter([True, True, True])
    Keeping.fails = lambda batch: next(tries, False)
    stage.start(stage.shard_ids[0], epoch=7)
    stage.run(30)
    fences = [call[2] for call in stage.calls if call[0] in {"started", "process"}]
    assert len(fences) == 5
    assert fences == sorted(set(fences))
    assert {fence.epoch for fence in fences} == {7}


@pytest.mark.req("K-35", "K-43", "K-44")
def test_no_more_is_read_than_is_asked_for_and_the_rest_comes_later_by_itself() -> None:
    stage = Stage(limits=PipelineLimits(read_ahead_records=10, batch_records=5))
    put(stage, 0, 100)
    stage.loops.hangs = lambda name, call: "process" in repr(call)
    stage.start(stage.shard_ids[0])
    stage.run(30)
    assert stage.reads <= 2
    assert stage.processed() == []

    stage = Stage(limits=PipelineLimits(read_ahead_records=10, batch_records=5))
    put(stage, 0, 100)
    stage.start(stage.shard_ids[0])
    stage.run(30)
    assert stage.processed() == numbers(0, 100)


@pytest.mark.req("K-26", "P-04")
@pytest.mark.case("X-34")
def test_a_shard_whose_consumer_hangs_holds_up_no_other() -> None:
    stage = Stage(shards=4)
    ids = stage.shard_ids
    stage.loops.hangs = lambda name, call: ids[0] in name and "process" in repr(call)
    for i, shard_id in enumerate(ids):
        put(stage, 0, 20, hash_key=i * 2**126 + 5)
        stage.start(shard_id)
    stage.run()
    assert stage.processed(ids[0]) == []
    for shard_id in ids[1:]:
        assert stage.processed(shard_id) == numbers(0, 20)


@pytest.mark.parametrize("how", ["hangs", "fails"])
def test_a_shard_whose_consumer_does_not_move_is_said_to_wait_and_no_other(how: str) -> None:
    stage = Stage(shards=2)
    ids = stage.shard_ids
    if how == "hangs":
        stage.loops.hangs = lambda name, call: ids[0] in name and "process" in repr(call)
    else:
        Keeping.fails = lambda batch: batch.shard_id == ids[0]
    keys = [stage.start(shard_id) for shard_id in ids]
    stage.run(10)
    for i in range(2):
        put(stage, 0, 20, hash_key=i * 2**127 + 5)
    stage.run(30)
    waiting = stage.pulse().waiting_ms
    assert list(waiting) == keys[:1]
    assert 25_000 < waiting[keys[0]] <= 30_000
    rates = Rates()
    rates.acknowledged(keys[0], 500)
    [summary] = rates.summaries(stage.pulse(), keys, now=0.0).values()
    assert summary.lag_ms == 500 + waiting[keys[0]]
    [without] = rates.summaries(stage.pulse(), keys[1:], now=0.0).values()
    assert without.lag_ms is None


def test_a_quiet_shard_waits_for_nobody_until_the_service_is_silent() -> None:
    stage = Stage()
    key = stage.start(stage.shard_ids[0])
    stage.run(100)
    assert stage.pulse().waiting_ms == {}
    stage.loops.hangs = lambda name, call: "read" in repr(call)
    stage.run(100)
    assert stage.pulse().waiting_ms[key] > 90_000


@pytest.mark.req("K-46", "K-47")
@pytest.mark.case("L-07")
@pytest.mark.parametrize("records", [0, 5])
def test_a_closed_shard_is_reported_after_everything_in_it_was_processed(records: int) -> None:
    stage = Stage()
    shard_id = stage.shard_ids[0]
    for data in numbers(0, records):
        stage.twin.put("key", data)
    stage.twin.split(shard_id)
    key = stage.start(shard_id)
    stage.run()
    assert stage.processed() == numbers(0, records)
    assert stage.reports(ShardProcessed) == [ShardProcessed(key)]
    assert stage.calls[-1] == ("ended", shard_id)
    assert isinstance(stage.sent[[*map(type, stage.sent)].index(ShardProcessed)], ShardProcessed)


@pytest.mark.req("K-47")
@pytest.mark.case("L-06")
def test_a_closed_shard_that_was_read_and_not_processed_is_not_reported() -> None:
    stage = Stage()
    put(stage, 0, 5)
    stage.twin.split(stage.shard_ids[0])
    Keeping.fails = lambda batch: True
    stage.start(stage.shard_ids[0])
    stage.run(20)
    assert stage.reports(ShardProcessed) == []
    assert stage.reports(Acknowledged) == []


@pytest.mark.parametrize("slow", [False, True])
def test_finishing_delivers_what_was_read_ahead_but_not_for_long(slow: bool) -> None:
    stage = Stage(limits=PipelineLimits(batch_records=2))
    put(stage, 0, 10)
    finished: list[bool] = []

    def finish_during_first(batch: ShardBatch) -> bool:
        if not finished:
            finished.append(True)
            stage.finish(key)
            put(stage, 10, 20)
        if slow:
            stage.loops.now += 0.6
        return False

    Keeping.fails = finish_during_first
    key = stage.start(stage.shard_ids[0])
    stage.run()
    assert stage.processed() == numbers(0, 4 if slow else 10)
    assert stage.reports(Acknowledged, PipelineFinished)[-1] == PipelineFinished(key)
    assert stage.calls[-1] == ("released", key.shard_id)
    stage.stop(key)
    stage.run()
    assert stage.calls[-1] == ("released", key.shard_id)


def test_finishing_does_not_wait_for_tries_that_fail() -> None:
    stage = Stage()
    put(stage, 0, 3)
    Keeping.fails = lambda batch: True
    key = stage.start(stage.shard_ids[0])
    stage.run(3)
    tries = len(stage.processed())
    stage.finish(key)
    stage.run(1)
    assert stage.reports(PipelineFinished) == [PipelineFinished(key)]
    assert stage.reports(Acknowledged) == []
    assert len(stage.processed()) == tries


def test_what_was_read_ahead_does_not_overtake_a_delivery_that_was_given_up() -> None:
    stage = Stage(limits=PipelineLimits(batch_records=1))
    put(stage, 0, 3)
    Keeping.fails = lambda batch: True
    key = stage.start(stage.shard_ids[0])
    stage.run(3)
    Keeping.fails = lambda batch: False
    stage.finish(key)
    stage.run(2)
    assert stage.reports(PipelineFinished) == [PipelineFinished(key)]
    assert set(stage.processed()) == set(numbers(0, 1))


@pytest.mark.req("K-32")
@pytest.mark.case("W-01", "X-36")
def test_a_lost_lease_stops_deliveries_and_acknowledgements_and_is_told() -> None:
    stage = Stage(limits=PipelineLimits(batch_records=2))
    put(stage, 0, 10)
    seen: list[bool] = []

    def lose_during_first(batch: ShardBatch) -> bool:
        if not seen:
            stage.stop(key)
            seen.append(batch.cancelled)
        return False

    Keeping.fails = lose_during_first
    key = stage.start(stage.shard_ids[0])
    stage.run()
    assert seen == [True]
    assert stage.processed() == numbers(0, 2)
    assert stage.reports(Acknowledged) == []
    assert ("lost", key.shard_id) in stage.calls


@pytest.mark.case("W-06")
def test_nothing_is_delivered_after_the_leases_ran_out() -> None:
    stage = Stage()
    stage.valid(10)
    key = stage.start(stage.shard_ids[0])
    put(stage, 0, 5)
    stage.run(5)
    assert stage.processed() == numbers(0, 5)
    stage.run(6)
    put(stage, 5, 10)
    stage.run(5)
    assert stage.processed() == numbers(0, 5)
    stage.valid(10)
    stage.run(2)
    assert stage.processed() == numbers(0, 10)
    assert not stage.reports(PipelineFailed)
    assert stage.reports(Acknowledged)[-1].key == key


@pytest.mark.case("W-06")
def test_a_delivery_during_which_the_leases_ran_out_is_not_acknowledged() -> None:
    stage = Stage()
    stage.valid(10)

    def take_long(batch: ShardBatch) -> bool:
        stage.loops.now += 20
        return False

    Keeping.fails = take_long
    put(stage, 0, 5)
    key = stage.start(stage.shard_ids[0])
    stage.run(2)
    assert stage.reports(Acknowledged) == []
    assert [report.key for report in stage.reports(PipelineFailed)] == [key]


@pytest.mark.case("X-30")
def test_a_consumer_that_hangs_is_abandoned_and_its_shard_given_up() -> None:
    stage = Stage(stall_seconds=30.0)
    put(stage, 0, 5)
    stage.loops.hangs = lambda name, call: "process" in repr(call)
    key = stage.start(stage.shard_ids[0])
    stage.run(25)
    assert not stage.reports(PipelineStalled)
    stage.run(10)
    assert [report.key for report in stage.reports(PipelineStalled)] == [key]
    # Not started again in a process in which its thread still lives.
    again = stage.start(stage.shard_ids[0], epoch=2)
    stage.run(3)
    assert [report.key for report in stage.reports(PipelineBlocked)] == [again]


def test_a_shard_waits_for_the_end_of_a_call_that_runs_under_an_earlier_epoch() -> None:
    stage = Stage(stall_seconds=30.0)
    put(stage, 0, 5)
    stage.loops.hangs = lambda name, call: "process" in repr(call)
    stage.start(stage.shard_ids[0])
    stage.run(5)
    again = stage.start(stage.shard_ids[0], epoch=2)  # its lease was lost, and taken anew
    stage.run(20)
    assert not stage.reports(PipelineBlocked), "the call may still return"
    stage.run(20)
    assert [report.key for report in stage.reports(PipelineBlocked)] == [again]
    stage.run(40)
    assert not stage.reports(PipelineStalled), "it was never started beside the other"


def test_the_policy_halts_the_shard() -> None:
    class Halting(Keeping):
        failure = Halt()

    stage = Stage(Keeping)
    Keeping.failure = Halt()
    try:
        put(stage, 0, 5)
        Keeping.fails = lambda batch: True
        key = stage.start(stage.shard_ids[0])
        stage.run()
    finally:
        Keeping.failure = Retry()
    assert [report.key for report in stage.reports(PipelineHalted)] == [key]
    assert stage.reports(Acknowledged) == []


def test_a_page_is_kept_while_the_question_about_a_gap_before_it_fails() -> None:
    stage = Stage()
    put(stage, 0, 3)
    stage.twin.account.faults.add("throttle", "DescribeStreamSummary", times=2)
    stage.start(stage.shard_ids[0])
    stage.run(5)
    assert stage.processed() == numbers(0, 3)


@pytest.mark.req("K-02", "F-07")
@pytest.mark.parametrize("pushed", [False, True])
def test_a_place_that_expired_halts_the_shard_and_names_the_gap(pushed: bool) -> None:
    stage = Stage(pushed=pushed)
    checkpoint = put(stage, 0, 3)
    put(stage, 3, 6)
    as_of = stage.twin.clock.now()
    stage.twin.clock.advance(timedelta(hours=25).total_seconds())
    put(stage, 6, 9)
    stage.start(stage.shard_ids[0], checkpoint=checkpoint, as_of=as_of)
    stage.run()
    (halted,) = stage.reports(PipelineHalted)
    assert halted.reason.startswith(f"gap in {stage.shard_ids[0]} after {checkpoint.sequence}")
    assert stage.processed() == []


@pytest.mark.req("K-02", "F-07")
@pytest.mark.parametrize("pushed", [False, True])
def test_by_policy_a_gap_is_recorded_and_reading_goes_on_at_the_horizon(pushed: bool) -> None:
    stage = Stage(go_on_after_gaps=True, pushed=pushed)
    checkpoint = put(stage, 0, 3)
    put(stage, 3, 6)
    as_of = stage.twin.clock.now()
    stage.twin.clock.advance(timedelta(hours=25).total_seconds())
    put(stage, 6, 9)
    stage.start(stage.shard_ids[0], checkpoint=checkpoint, as_of=as_of)
    stage.run()
    (gap,) = stage.reports(GapFound)
    assert "gap in" in gap.text
    assert stage.processed() == numbers(6, 9)


@pytest.mark.case("X-24")
@pytest.mark.parametrize("pushed", [False, True])
def test_a_quiet_shard_is_no_gap_however_long_it_is_quiet(pushed: bool) -> None:
    stage = Stage(pushed=pushed)
    put(stage, 0, 3)
    stage.start(stage.shard_ids[0])
    for _ in range(30):
        stage.run(5)
        stage.twin.clock.advance(3600)
        stage.loops.now += 3600
    put(stage, 3, 6)
    stage.run()
    assert stage.processed() == numbers(0, 6)
    assert not stage.reports(PipelineHalted)
    assert len(stage.reports(Acknowledged)) > 5  # the quiet ones, so that a restart knows it too


@pytest.mark.case("X-15")
def test_the_end_of_a_quiet_shard_says_up_to_when_nothing_was_there() -> None:
    stage = Stage()
    stage.start(stage.shard_ids[0])
    stage.run(5)
    stage.twin.clock.advance(timedelta(hours=20).total_seconds())
    stage.run(5)
    stage.twin.split(stage.shard_ids[0])
    stage.run()
    assert stage.reports(ShardProcessed)
    last = stage.reports(Acknowledged)[-1]
    assert last.as_of is not None
    assert stage.twin.clock.now() - last.as_of < timedelta(minutes=2)


def test_memory_is_bounded_for_all_pipelines_together() -> None:
    stage = Stage(shards=4, memory_bytes=20_000, limits=replace(PipelineLimits(), batch_records=10))
    stage.loops.hangs = lambda name, call: "process" in repr(call)
    for i, shard_id in enumerate(stage.shard_ids):
        for _ in range(200):
            stage.twin.put("key", b"x" * 1000, hash_key=i * 2**126 + 5)
        stage.start(shard_id)
    stage.run(10)
    assert stage.reads <= 5


def test_a_suspected_shard_without_records_says_at_once_that_nothing_is_wrong() -> None:
    stage = Stage(shards=2)
    first, second = stage.shard_ids
    suspected = stage.start(first, suspected=True)
    stage.start(second)
    stage.run()
    assert [report.key for report in stage.reports(Acknowledged)] == [suspected]


def test_calls_of_the_consumer_are_reported_until_something_is_acknowledged() -> None:
    stage = Stage()
    Keeping.fails = lambda batch: batch.fence.delivery == 1
    put(stage, 0, 2)
    key = stage.start(stage.shard_ids[0])
    stage.run()
    put(stage, 2, 4)
    stage.run()
    called, returned = ConsumerCalled(key), ConsumerReturned(key)
    reports = stage.reports(ConsumerCalled, ConsumerReturned, Acknowledged)
    assert reports[:5] == [called, returned, called, returned, called]
    assert all(isinstance(report, Acknowledged) for report in reports[5:])
    assert stage.processed()[-2:] == numbers(2, 4)
