"""How a query starts, is bounded, ends, repeats itself and meets gaps, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.offsets import Offset, Range
from shardline.core.positions import LATEST, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import GapError, ShardlineError
from shardline.local.service import Service
from shardline.services.access import Access
from shardline.services.calls import Patience
from shardline.services.connection import connect
from shardline.services.cursor import ShardCursor
from shardline.services.steps import run
from shardline.spark.executor.range_reader import RangeReader, ShardRange
from tests.property.planning_query import KEYS, Crash, Query, TableWorld, World
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    from shardline.core.promise import Verdict
    from shardline.services.port import Page, StreamService


def world(shards: int = 1) -> World:
    return World(KinesisTwin(shards=shards))


def put_slowly(stream: World, count: int, records_per_second: int) -> None:
    """Write as fast as a shard would take it, by the service's clock."""
    for n in range(count):
        stream.put(KEYS[n % len(KEYS)])
        if n % records_per_second == records_per_second - 1:
            stream.twin.clock.advance(1)


def delivered_all(stream: World) -> Verdict:
    verdict = stream.checker.verdict().require()
    assert verdict.delivered == verdict.written
    return verdict


# --- starts -------------------------------------------------------------------------------------


@pytest.mark.req("O-17", "O-22")
@pytest.mark.case("L-20", "R-06")
def test_latest_is_resolved_once_and_survives_a_crash_before_the_first_record() -> None:
    stream = world(shards=2)
    for key in KEYS:
        stream.twin.put(key, b"before")  # not told to the checker: must never come
    query = Query(stream, start=LATEST)
    assert query.step() == 0  # the empty batch that writes the pinned positions down
    query.restart()
    stream.put(KEYS[0])
    stream.split(0)
    stream.put(KEYS[1])
    stream.twin.clock.advance(3600)
    query.run_dry()
    delivered_all(stream)


@pytest.mark.case("L-20", "R-06")
def test_latest_is_not_resolved_anew_when_the_first_batch_crashed() -> None:
    stream = world()
    query = Query(stream, start=LATEST)
    with pytest.raises(Crash):
        query.step(crash_at="planned")
    stream.put(KEYS[0])
    query.restart()
    query.run_dry()
    delivered_all(stream)


def test_a_time_begins_at_the_first_record_that_arrived_then() -> None:
    stream = world()
    stream.twin.put(KEYS[0], b"before")
    stream.twin.clock.advance(60)
    start = stream.twin.clock.now()
    stream.put(KEYS[0])
    stream.split(0)
    stream.put(KEYS[1])
    query = Query(stream, start=AtTime(start))
    query.run_dry()
    delivered_all(stream)


@pytest.mark.req("O-17", "O-22")
@pytest.mark.case("L-20", "R-06")
@pytest.mark.parametrize("crash", [False, True])
def test_latest_of_a_quiet_table_is_pinned_too(crash: bool) -> None:
    stream = TableWorld()
    old = {"id": {"S": KEYS[0]}}
    stream.tables.put_change("users", old, new=old)  # not told to the checker: must never come
    stream.clock.advance(3600)
    query = Query(stream, start=LATEST)
    assert query.step() == 0
    if crash:
        query.restart()
    stream.put(KEYS[1])
    stream.merge(0)
    stream.put(KEYS[1])
    stream.clock.advance(3600)
    query.run_dry()
    delivered_all(stream)


# --- bounds -------------------------------------------------------------------------------------


@pytest.mark.req("K-01")
@pytest.mark.parametrize("records_per_second", [1, 100, 1_000])
def test_catching_up_is_bounded_and_soon_done(records_per_second: int) -> None:
    stream = world()
    put_slowly(stream, 20_000, records_per_second)
    query = Query(stream, max_records=4_000)
    sizes = []
    while (size := query.step_soon()) >= 0:
        sizes.append(size)
        stream.twin.clock.advance(1)
    assert max(sizes) <= 4_000
    assert len(sizes) <= 30  # at least a thousand records a batch, whatever the rate was
    delivered_all(stream)


def test_a_long_tail_after_the_last_write_is_read_in_few_batches() -> None:
    stream = world()
    put_slowly(stream, 20_000, 1_000)
    stream.twin.clock.advance(3 * 3600)
    query = Query(stream, max_records=1_000_000)
    batches = 0
    while query.step_soon() >= 0:
        batches += 1
        stream.twin.clock.advance(1)
    assert batches <= 12  # each halves what is left
    delivered_all(stream)


def test_without_a_limit_one_batch_holds_everything() -> None:
    stream = world(shards=2)
    put_slowly(stream, 5_000, 500)
    query = Query(stream, max_records=None)
    assert query.step() == 5_000
    delivered_all(stream)


@pytest.mark.req("K-01")
def test_probes_and_reads_stay_within_the_service_s_quota() -> None:
    twin = KinesisTwin()
    twin.account.limits.enabled = True  # five reads a second, or an exception
    stream = World(twin)
    query = Query(stream)
    for _ in range(120):
        stream.put(KEYS[0])
        query.step()
        twin.clock.advance(0.1)
    query.run_dry()
    delivered_all(stream)


def test_idle_polls_do_not_call_the_service() -> None:
    stream = world()
    query = Query(stream)
    query.run_dry()
    calls = 0
    read = stream.twin.read

    def counted(iterator: str, max_records: int) -> object:
        nonlocal calls
        calls += 1
        return read(iterator, max_records)

    stream.twin.read = counted  # type: ignore[method-assign,assignment]
    for _ in range(1_000):  # twelve seconds of Spark's polling
        query.step()
        stream.twin.clock.advance(0.012)
    assert 12 <= calls <= 60  # five a second


# --- a batch is a fact --------------------------------------------------------------------------


@pytest.mark.case("R-10")
def test_a_batch_read_again_is_the_same_while_the_stream_goes_on() -> None:
    stream = world(shards=2)
    put_slowly(stream, 300, 100)
    query = Query(stream)
    query.step()
    query.step()
    planned = query.last()
    ranges = query.ranges(Offset(TRIM_HORIZON), planned)
    first = {item.shard_id: query.pages(item) for item in ranges}
    assert sum(page.num_rows for pages in first.values() for page in pages)
    for n in range(3):
        stream.put(KEYS[n])
        stream.split(n)
        query.restart()
        again = query.ranges(Offset(TRIM_HORIZON), planned)
        assert {item.shard_id: query.pages(item) for item in again} == first


# --- an end -------------------------------------------------------------------------------------


def test_a_target_is_reached_although_the_stream_goes_on_and_reshards() -> None:
    stream = world(shards=2)
    put_slowly(stream, 300, 100)
    stream.twin.clock.advance(2)
    query = Query(stream, max_records=50)
    query.set_target()
    query.ask()
    written = stream.checker.verdict().written
    stream.twin.clock.advance(2)
    batches = 0
    while query.step() >= 0:
        batches += 1
        stream.put(KEYS[batches % len(KEYS)])
        stream.split(batches)
        stream.twin.clock.advance(1)
        assert batches < 100, "it does not end"
    verdict = stream.checker.verdict()
    assert verdict.delivered == written
    assert verdict.out_of_order == 0
    query.restart()
    query.run_dry()
    delivered_all(stream)


# --- gaps ---------------------------------------------------------------------------------------

DAY = timedelta(hours=24).total_seconds()


@pytest.mark.req("K-02")
@pytest.mark.case("L-17")
def test_a_position_older_than_the_retention_fails_by_default_and_says_so() -> None:
    stream = world()
    query = Query(stream)
    stream.put(KEYS[0])
    query.run_dry()
    stream.put(KEYS[1])
    stream.twin.clock.advance(DAY + 3600)
    query.restart()
    with pytest.raises(GapError, match=r"gap in shardId-000000000000 after \d+: .*failOnDataLoss"):
        query.step()


@pytest.mark.req("K-02")
@pytest.mark.case("L-17")
def test_a_gap_that_is_accepted_is_written_down_and_reading_goes_on() -> None:
    stream = world()
    query = Query(stream, fail_on_data_loss=False)
    stream.put(KEYS[0])
    query.run_dry()
    stream.put(KEYS[1])
    stream.twin.clock.advance(DAY + 3600)
    stream.checker.gap("shardId-000000000000")
    stream.put(KEYS[2])
    query.restart()
    query.run_dry()
    verdict = stream.checker.verdict().require()
    assert (verdict.delivered, verdict.in_gaps) == (2, 1)
    (gap,) = query.last().gaps
    assert gap.shard_id == "shardId-000000000000"


def test_a_batch_planned_before_its_records_expired_is_not_read_with_a_hole() -> None:
    stream = world()
    query = Query(stream)
    stream.put(KEYS[0])
    query.run_dry()
    stream.put(KEYS[1])
    with pytest.raises(Crash):
        query.step_soon(crash_at="planned")
    stream.twin.clock.advance(DAY + 3600)
    query.restart()
    with pytest.raises(GapError):
        query.step()


@pytest.mark.req("K-02")
@pytest.mark.case("L-17")
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("committed", [0, 1])
def test_a_batch_planned_before_its_records_expired_is_read_for_what_is_left_by_choice(
    table: bool, committed: int
) -> None:
    stream = TableWorld() if table else world()
    query = Query(stream, fail_on_data_loss=False)
    for n in range(committed):
        stream.put(KEYS[n])
        query.run_dry()
    stream.put(KEYS[4])
    with pytest.raises(Crash):
        query.step_soon(crash_at="planned")
    stream.clock.advance(DAY + 3600)
    (shard,) = stream.service.list_shards()
    stream.checker.gap(shard.id)
    stream.put(KEYS[5])
    query.restart()
    query.run_dry()
    verdict = stream.checker.verdict().require()
    assert (verdict.delivered, verdict.in_gaps) == (committed + 1, 1)
    assert {gap.shard_id for gap in query.last().gaps} == {shard.id}


@pytest.mark.case("L-17")
def test_what_is_left_of_a_batch_with_a_gap_comes_through_empty_pages() -> None:
    stream = TableWorld()
    stream.put(KEYS[0])
    stream.put(KEYS[1])
    (shard,) = stream.service.list_shards()
    last = ShardCursor(stream.service, shard.id, TRIM_HORIZON).read(10).records
    upto = After(SequenceNumber(last.column("sequenceNumber")[1].as_py()))
    read, empty = stream.service.read, iter(range(5))

    def hesitant(iterator: str, max_records: int) -> Page:
        if next(empty, None) is None:
            return read(iterator, max_records)
        page = read(iterator, 1)
        return replace(page, records=page.records.slice(0, 0), next_iterator=iterator)

    stream.service.read = hesitant  # type: ignore[method-assign]
    item = ShardRange(shard.id, Range(TRIM_HORIZON, upto, None), has_gap=True)
    found: list[int] = []
    reader = RangeReader(stream.service, item, lambda _, page: found.append(page.num_rows))
    run(reader.read_steps(), sleep=lambda _: None)
    assert sum(found) == 2


def test_an_idle_query_writes_down_now_and_then_that_nothing_was_there() -> None:
    stream = world()
    query = Query(stream)
    stream.put(KEYS[0])
    for _ in range(60):
        query.step()
        stream.twin.clock.advance(1800)
    query.restart()  # thirty hours after the only record
    stream.put(KEYS[1])
    query.run_dry()
    delivered_all(stream)
    assert query.commits < 40


def test_starting_at_the_horizon_is_no_gap() -> None:
    stream = world()
    stream.twin.put(KEYS[0], b"expires before the query begins")
    stream.twin.clock.advance(DAY - 60)
    stream.put(KEYS[1])
    stream.twin.clock.advance(120)
    query = Query(stream, start=TRIM_HORIZON)
    query.run_dry()
    delivered_all(stream)


@pytest.mark.case("L-18")
def test_a_stream_that_was_made_again_is_noticed() -> None:
    stream = world()
    stream.put(KEYS[0])
    query = Query(stream)
    query.run_dry()
    account, now_ms = stream.twin.account, stream.twin.clock.now_ms()
    account.delete(account.find(stream.twin.name, now_ms), now_ms)
    stream.twin.clock.advance(60)
    again = KinesisTwin(clock=stream.twin.clock, account=stream.twin.account)
    stream.twin = again
    query.restart()
    with pytest.raises(ShardlineError, match="deleted and made again"):
        query.step()


# --- faults -------------------------------------------------------------------------------------


class HttpWorld(World):
    """A stream behind the wire, whose server throttles, fails and cuts lines."""

    def __init__(self, server: Service) -> None:
        self.port = connect(
            "kinesis://twin",
            Access(endpoint_url=server.endpoint_url),
            patience=Patience(first_delay_seconds=0.001, longest_delay_seconds=0.01),
        )
        super().__init__(KinesisTwin(shards=2, clock=server.clock, account=server.kinesis.account))

    @property
    def service(self) -> StreamService:
        return self.port


@pytest.mark.case("R-11", "R-12")
def test_throttling_failures_and_cut_lines_are_waited_out() -> None:
    # Not strict: it fails in these ways, and more often.
    with Service(empty_page_every=3, seed=7) as server:
        stream = HttpWorld(server)
        for kind in ("throttle", "internal-failure", "cut"):
            for operation in ("GetRecords", "GetShardIterator"):
                server.faults.add(kind, operation, times=None, probability=0.1)
        query = Query(stream, max_records=50)
        for n in range(6):
            for key in KEYS * 5:
                stream.put(key)
            stream.split(n)
            query.step()
            server.clock.advance(2)
        query.run_dry()
        delivered_all(stream)
