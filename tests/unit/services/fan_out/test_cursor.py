"""A shard read by subscriptions that end, break, are refused and repeat, and by polling meanwhile.

The service is a script. Its shard holds the records 1, 2, 3, …; numbers stand for records.
"""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import InvalidPosition, ServiceError, Throttled
from shardline.services.fan_out.port import (
    PushService,
    SubscriptionBroken,
    SubscriptionEnded,
    SubscriptionTaken,
)
from shardline.services.pace import UNPACED, ShardPace
from shardline.services.port import Page, StreamDescription
from shardline.services.shard_readers import shard_reader
from shardline.services.steps import run
from shardline.services.wire.columns import KINESIS_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shardline.services.port import ShardReader

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
CHILD = Shard("child", ("shard",), None)


def page(
    numbers: Sequence[int], following: int | None = None, *, behind_ms: int = 0, end: bool = False
) -> Page:
    rows = [
        {
            "partitionKey": "a",
            "data": b"",
            "sequenceNumber": str(number),
            "approximateArrivalTimestamp": NOW,
        }
        for number in numbers
    ]
    records = pa.RecordBatch.from_pylist(rows, schema=KINESIS_COLUMNS)
    last = following if following is not None else max(numbers, default=0)
    return Page(records, None if end else str(last), behind_ms, (CHILD,) if end else (), NOW)


class Scripted:
    """One subscription: gives or raises what its script says, then nothing."""

    def __init__(self, service: ScriptedService, script: list[Page | Exception | None]) -> None:
        self._service = service
        self._script = script
        self.closed = False

    def next(self, wait_seconds: float) -> Page | None:
        assert not self.closed
        step = self._script.pop(0) if self._script else None
        if isinstance(step, Exception):
            raise step
        if step is None:
            self._service.now += max(wait_seconds, 0.01)
        return step

    def close(self) -> None:
        self.closed = True


class ScriptedService:
    """Each subscription is the next of `scripts`; polled, it has the records up to `newest`."""

    finds_times = True
    columns = KINESIS_COLUMNS

    def __init__(self, *scripts: list[Page | Exception | None] | Exception) -> None:
        self.scripts = list(scripts)
        self.newest = 0
        self.closed_at: int | None = None
        self.now = 1000.0
        self.asked: list[Position] = []
        """Where subscriptions were asked for."""
        self.opened: list[Position] = []
        """Where polling began."""
        self.reports: list[str] = []
        self.subscriptions: list[Scripted] = []

    def subscribe(self, shard_id: str, position: Position) -> Scripted:
        assert shard_id == "shard"
        self.asked.append(position)
        script = self.scripts.pop(0) if self.scripts else []
        if isinstance(script, Exception):
            raise script
        self.subscriptions.append(Scripted(self, script))
        return self.subscriptions[-1]

    def report_polling(self, shard_id: str, reason: str, seconds: float) -> None:
        self.reports.append(f"{shard_id} {seconds:.0f} {reason}")

    def open(self, shard_id: str, position: Position) -> str:
        assert shard_id == "shard"
        self.opened.append(position)
        match position:
            case After(sequence, _):
                return str(int(sequence))
            case _ if position == LATEST:
                return str(self.newest)
        return "0"

    def read(self, iterator: str, max_records: int) -> Page:
        numbers = range(int(iterator) + 1, self.newest + 1)[:max_records]
        following = numbers[-1] if numbers else int(iterator)
        return page(numbers, following, end=following == self.closed_at)

    def describe(self) -> StreamDescription:
        raise NotImplementedError

    def list_shards(self) -> tuple[Shard, ...]:
        raise NotImplementedError

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        raise NotImplementedError

    def has_shard(self, shard_id: str) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def reader_of(
    service: ScriptedService, position: Position = TRIM_HORIZON, wait_seconds: float = 5.0
) -> ShardReader:
    assert isinstance(service, PushService)
    return shard_reader(
        service,
        "shard",
        position,
        pace=ShardPace(UNPACED),
        wait_seconds=wait_seconds,
        clock=lambda: service.now,
    )


def read(reader: ShardReader) -> list[int]:
    return numbers_in(run(reader.read_steps(1000)))


def numbers_in(read_page: Page) -> list[int]:
    return [int(text) for text in read_page.records.column("sequenceNumber").to_pylist()]


def after(number: int) -> After:
    return After(SequenceNumber(str(number)))


ENDS: dict[str, Callable[[], ServiceError]] = {
    "its five minutes are over": lambda: SubscriptionEnded("over"),
    "the connection is cut": lambda: SubscriptionBroken("cut"),
}


@pytest.mark.req("F-02", "F-04")
@pytest.mark.parametrize("end", ENDS)
def test_the_next_subscription_continues_after_the_last_event(end: str) -> None:
    service = ScriptedService([page([1, 2]), page([3]), ENDS[end]()], [page([4])])
    reader = reader_of(service)
    assert [read(reader), read(reader)] == [[1, 2], [3]]
    service.now += 300
    assert read(reader) == [4]
    assert service.asked == [TRIM_HORIZON, after(3)]
    assert service.opened == []
    assert [subscription.closed for subscription in service.subscriptions] == [True, False]


@pytest.mark.req("F-03")
def test_the_number_of_an_empty_event_is_kept_but_is_no_position() -> None:
    script: list[Page | Exception | None] = [page([1], 40), page([], 50), SubscriptionEnded("over")]
    service = ScriptedService(script, [page([60])])
    reader = reader_of(service)
    assert read(reader) == [1]
    assert reader.position == after(1)
    assert read(reader) == []
    assert reader.position == after(1)
    service.now += 300
    assert read(reader) == [60]
    assert service.asked == [TRIM_HORIZON, after(50)]
    assert reader.position == after(60)


REFUSALS: dict[str, ServiceError] = {
    "another one is younger than five seconds": ServiceError("ResourceInUseException"),
    "a limit": Throttled("LimitExceededException"),
    "the consumer is not ACTIVE": ServiceError("is CREATING"),
}


@pytest.mark.req("F-05")
@pytest.mark.parametrize("why", REFUSALS)
def test_a_shard_is_polled_while_a_subscription_is_refused(why: str) -> None:
    service = ScriptedService(REFUSALS[why], [page([4])])
    service.newest = 2
    reader = reader_of(service)
    assert read(reader) == [1, 2]
    assert service.reports == [f"shard 5 {REFUSALS[why]}"]
    service.newest = 3
    assert read(reader) == [3]
    service.now += 5.25
    assert read(reader) == [4]
    assert service.asked == [TRIM_HORIZON, after(3)]


@pytest.mark.req("F-05")
def test_each_refusal_waits_longer_up_to_a_minute_until_a_subscription_lasts() -> None:
    refused = [ServiceError("in use") for _ in range(6)]
    service = ScriptedService(*refused, [page([1]), SubscriptionTaken("by another")])
    reader = reader_of(service)
    waits = []
    for _ in refused:
        asked, began = len(service.asked), service.now
        while len(service.asked) == asked:
            read(reader)
            service.now += 0.25
        waits.append(service.now - began)
    assert [round(float(report.split()[1])) for report in service.reports] == [
        *(5, 10, 21, 42, 60, 60)
    ]
    service.now += 60
    assert read(reader) == [1]
    service.now += 60
    assert read(reader) == []
    assert service.reports[-1] == "shard 5 by another"


@pytest.mark.req("F-04")
def test_a_subscription_that_breaks_at_once_is_not_asked_for_again_within_five_seconds() -> None:
    service = ScriptedService([page([1]), SubscriptionBroken("cut")], [page([3])])
    service.newest = 2
    reader = reader_of(service)
    assert [read(reader), read(reader)] == [[1], [2]]
    assert service.opened == [after(1)]
    assert len(service.asked) == 1
    service.now += 5.25
    assert read(reader) == [3]
    assert service.asked[1] == after(2)


@pytest.mark.req("F-06")
def test_the_end_is_an_event_without_a_number() -> None:
    service = ScriptedService([page([1]), page([2], end=True)])
    reader = reader_of(service)
    read(reader)
    last = run(reader.read_steps(10))
    assert (numbers_in(last), last.next_iterator, last.children) == ([2], None, (CHILD,))
    assert (reader.ended, reader.position) == (True, SHARD_END)
    assert service.subscriptions[0].closed
    with pytest.raises(InvalidPosition):
        read(reader)


@pytest.mark.req("F-06")
def test_the_end_is_found_by_polling_too() -> None:
    service = ScriptedService([page([1]), SubscriptionBroken("cut")])
    service.newest = service.closed_at = 2
    reader = reader_of(service)
    assert [read(reader), read(reader)] == [[1], [2]]
    assert reader.ended


@pytest.mark.req("F-02")
def test_what_the_service_repeats_is_dropped() -> None:
    service = ScriptedService([page([1, 2]), page([1, 2, 3]), page([2, 3]), page([4])])
    reader = reader_of(service)
    assert [read(reader) for _ in range(4)] == [[1, 2], [3], [], [4]]


def test_a_read_without_an_event_says_what_the_last_event_said() -> None:
    service = ScriptedService([page([1], behind_ms=7)])
    reader = reader_of(service, wait_seconds=0.0)
    run(reader.read_steps(10))
    nothing = run(reader.read_steps(10))
    assert (nothing.records.num_rows, nothing.behind_ms, nothing.service_time) == (0, 7, NOW)


def test_the_first_read_waits_for_the_first_event() -> None:
    service = ScriptedService([None, None, page([], 5)])
    assert read(reader_of(service, wait_seconds=0.0)) == []
    assert service.now > 1000


def test_a_place_inside_an_aggregated_record_is_asked_for_as_it_is() -> None:
    inside = After(SequenceNumber("7"), 3)
    service = ScriptedService([page([7])])
    assert read(reader_of(service, inside)) == [7]
    assert service.asked == [inside]


def test_latest_becomes_a_time_for_others_and_stays_exact_here() -> None:
    service = ScriptedService([page([], 9), SubscriptionEnded("over")], [page([10])])
    reader = reader_of(service, LATEST)
    read(reader)
    assert isinstance(reader.position, AtTime)
    assert NOW - timedelta(seconds=10) < reader.position.time < NOW
    service.now += 300
    assert read(reader) == [10]
    assert service.asked == [LATEST, after(9)]


def test_latest_that_is_polled_is_not_subscribed_to_before_a_record_shows_the_place() -> None:
    service = ScriptedService(ServiceError("in use"), [page([7])])
    service.newest = 5
    reader = reader_of(service, LATEST)
    for _ in range(10):
        assert read(reader) == []
        service.now += 5
    assert len(service.asked) == 1
    service.newest = 6
    assert [read(reader), read(reader)] == [[6], [7]]
    assert service.asked == [LATEST, after(6)]


def test_closing_ends_the_subscription() -> None:
    service = ScriptedService([page([1])])
    reader = reader_of(service)
    read(reader)
    reader.close()
    assert service.subscriptions[0].closed


@pytest.mark.req("F-02", "F-04", "F-05")
@pytest.mark.parametrize("seed", range(200))
def test_no_record_is_missing_or_out_of_order_whatever_happens(seed: int) -> None:
    """Follow a shard that grows, through every fate in random order."""
    rng = random.Random(seed)
    service = Growing(rng)
    reader = reader_of(service, wait_seconds=rng.choice([0.0, 5.0]))
    got: list[int] = []
    for _ in itertools.takewhile(lambda _: not reader.ended, range(5000)):
        got += read(reader)
        service.now += rng.random()
    assert got == list(range(1, 101))


class Growing(ScriptedService):
    """A shard of 100 records, written while it is read, whose subscriptions have any fate."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self.closed_at = 100

    def subscribe(self, shard_id: str, position: Position) -> Scripted:
        assert shard_id == "shard"
        if self._rng.random() < 0.3:
            raise ServiceError("refused")
        start = int(position.sequence) if isinstance(position, After) else 0
        return Random(self, self._rng, start)

    def read(self, iterator: str, max_records: int) -> Page:
        self.newest = min(100, self.newest + self._rng.randrange(3))
        return super().read(iterator, max_records)


class Random(Scripted):
    """A subscription of a growing shard."""

    def __init__(self, service: ScriptedService, rng: random.Random, place: int) -> None:
        super().__init__(service, [])
        self._rng = rng
        self._place = place

    def next(self, wait_seconds: float) -> Page | None:
        rng, service = self._rng, self._service
        service.newest = min(100, service.newest + rng.randrange(4))
        match rng.randrange(12):
            case 0:
                raise SubscriptionEnded("over")
            case 1:
                raise SubscriptionBroken("cut")
            case 2:
                raise SubscriptionTaken("by another")
            case 3:
                service.now += wait_seconds
                return None
            case 4:
                self._place = max(0, self._place - 2)  # the service repeats
        count = rng.randrange(4)
        numbers = range(self._place + 1, min(service.newest, self._place + count) + 1)
        self._place = numbers[-1] if numbers else self._place
        return page(numbers, self._place, end=self._place == 100)
