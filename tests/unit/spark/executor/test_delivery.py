"""What a consumer is given, and what becomes of what it refuses, under each policy."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.consumer.policies import DeadLetter, FailurePolicy, Halt, Retry
from shardline.core.fences import Fence
from shardline.spark.executor.delivery import Counts, Delivering
from tests.unit.spark.executor.shard_rows import shard_range, task_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa


@dataclass
class Recorder(ShardConsumer):
    """Notes what it is told; fails on some records, for ever or so often."""

    failure: FailurePolicy = field(default_factory=Retry)  # type: ignore[misc]
    poison: dict[int, int] = field(default_factory=dict)
    """How often a record fails."""
    told: list[object] = field(default_factory=list)
    processed: list[int] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)

    def process(self, batch: ShardBatch) -> None:
        numbers = [int(record.data) for record in batch.records]
        for number in numbers:
            if self.poison.get(number, 0) > 0:
                self.poison[number] -= 1
                raise ValueError(f"no {number}\nplease")
        self.fences.append(batch.fence)
        self.processed += numbers
        self.told.append((batch.shard_id, numbers))

    def shard_started(self, shard_id: str, fence: Fence) -> None:
        self.told.append((shard_id, "started", fence.epoch))

    def shard_ended(self, shard_id: str) -> None:
        self.told.append((shard_id, "ended"))

    def lease_lost(self, shard_id: str) -> None:
        self.told.append((shard_id, "lost"))


@dataclass
class Aside:
    letters: list[tuple[list[int], str]] = field(default_factory=list)

    def write(self, batch: ShardBatch, reason: str) -> tuple[str, ...]:
        self.letters.append(([int(record.data) for record in batch.records], reason))
        return ()


def deliver(
    consumer: Recorder,
    rows: Sequence[pa.RecordBatch],
    *,
    holds: Callable[[str, int], bool] = lambda *_: True,
    aside: Aside | None = None,
    slept: list[float] | None = None,
) -> Counts:
    slept = [] if slept is None else slept
    delivering = Delivering(
        consumer,
        batch=7,
        attempt=3,
        still_held=holds,
        dead_letters=aside,
        sleep=slept.append,
    )
    counts = delivering.run(rows)
    assert (counts.bytes > 0) == (counts.processed > 0)
    return replace(counts, bytes=0)


def ten(*pages: Sequence[int]) -> list[pa.RecordBatch]:
    """Return the records 0 to 9 of a shard, in these pages."""
    return task_rows([("a", numbers) for numbers in pages or [range(10)]], [shard_range("a", [9])])


@pytest.mark.req("K-26", "K-34", "K-36", "K-41")
def test_all_callbacks_go_to_the_consumer_in_order() -> None:
    ranges = [
        shard_range("a", [1, 2, 3], epoch=4, begins=True, ends=True),
        shard_range("b", [7, 8], epoch=9),
    ]
    consumer = Recorder()
    counts = deliver(consumer, task_rows([("a", [1, 2]), ("a", [3]), ("b", [7, 8])], ranges))
    assert consumer.told == [
        ("a", "started", 4), ("a", [1, 2]), ("a", [3]), ("a", "ended"), ("b", [7, 8]),
    ]  # fmt: skip
    assert consumer.fences == [Fence(4, 703), Fence(4, 703), Fence(9, 703)]
    assert counts == Counts(processed=5)


def test_shards_that_share_an_arrow_batch_are_told_apart() -> None:
    import pyarrow as pa

    ranges = [
        shard_range("a", [1, 2], begins=True),
        shard_range("b", [3], begins=True, ends=True),
        shard_range("c", [4]),
    ]
    rows = task_rows([("a", [1, 2]), ("b", [3]), ("c", [4])], ranges)
    (joined,) = pa.Table.from_batches(rows).combine_chunks().to_batches()
    consumer = Recorder()
    deliver(consumer, [joined])
    assert consumer.told == [
        ("a", "started", 1), ("a", [1, 2]), ("b", "started", 1), ("b", [3]), ("b", "ended"),
        ("c", [4]),
    ]  # fmt: skip


@pytest.mark.case("R-01", "R-02")
def test_retry_delivers_again_until_it_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    consumer, slept = Recorder(Retry(), {5: 3}), list[float]()
    with caplog.at_level(logging.WARNING):
        counts = deliver(consumer, ten(range(4), range(4, 10)), slept=slept)
    assert consumer.processed == list(range(10))
    assert counts == Counts(processed=10, retries=3)
    assert slept == [0.5, 1.0, 2.0]
    assert caplog.records[0].getMessage() == (
        "a: Recorder failed on 6 records (ValueError: no 5 please); attempt 2 of 8 in 0.5 s"
    )


@pytest.mark.case("R-01")
def test_retry_halts_after_the_last_attempt_and_passes_nothing() -> None:
    consumer, slept = Recorder(Retry(attempts=3), {5: 99}), list[float]()
    with pytest.raises(ValueError, match="no 5"):
        deliver(consumer, ten(range(4), range(4, 10)), slept=slept)
    assert consumer.processed == [0, 1, 2, 3]
    assert len(slept) == 2


def test_pauses_grow_up_to_a_limit() -> None:
    retry = Retry(first_delay_seconds=0.5, longest_delay_seconds=3)
    assert [retry.delay_seconds(n) for n in (1, 2, 3, 4, 60)] == [0.5, 1, 2, 3, 3]


@pytest.mark.case("R-01")
def test_halt_stops_at_the_first_failure(caplog: pytest.LogCaptureFixture) -> None:
    consumer, slept = Recorder(Halt(), {5: 1}), list[float]()
    with caplog.at_level(logging.WARNING), pytest.raises(ValueError, match="no 5"):
        deliver(consumer, ten(range(4), range(4, 10)), slept=slept)
    assert consumer.processed == [0, 1, 2, 3]
    assert slept == []
    assert [r.getMessage() for r in caplog.records] == [
        "a: Recorder failed on 6 records (ValueError: no 5 please); nothing is acknowledged behind "
        "them, and this worker stops"
    ]


@pytest.mark.case("R-01")
def test_dead_letters_by_record_keep_order_and_lose_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    consumer, aside = Recorder(DeadLetter("file:///x"), {2: 99, 7: 99, 4: 1}), Aside()
    with caplog.at_level(logging.WARNING):
        counts = deliver(consumer, ten(), aside=aside)
    assert consumer.processed == [0, 1, 3, 4, 5, 6, 8, 9]
    assert aside.letters == [([n], f"ValueError: no {n} please") for n in (2, 7)]
    assert (counts.processed, counts.dead_letters) == (8, 2)
    said = [r.getMessage() for r in caplog.records if "put" in r.getMessage()]
    assert said == [
        f"a: put 1 records aside to file:///x: ValueError: no {n} please" for n in (2, 7)
    ]


@pytest.mark.case("R-01")
def test_dead_letters_by_batch_put_the_batch_aside_whole() -> None:
    consumer, aside = Recorder(DeadLetter("file:///x", per="batch"), {2: 99}), Aside()
    counts = deliver(consumer, ten(range(5), range(5, 10)), aside=aside)
    assert aside.letters == [([0, 1, 2, 3, 4], "ValueError: no 2 please")]
    assert consumer.processed == [5, 6, 7, 8, 9]
    assert counts == Counts(processed=5, retries=1, dead_letters=5)


@pytest.mark.case("R-01")
def test_a_letter_that_cannot_be_kept_stops_the_worker() -> None:
    class Full(Aside):
        def write(self, batch: ShardBatch, reason: str) -> tuple[str, ...]:  # noqa: ARG002
            raise OSError("disk full")

    consumer = Recorder(DeadLetter("file:///x"), {2: 99})
    with pytest.raises(OSError, match="disk full"):
        deliver(consumer, ten(), aside=Full())
    assert consumer.processed == [0, 1]


@pytest.mark.case("W-01")
def test_a_lost_shard_is_left_at_once_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ranges = [shard_range("a", [9], epoch=4, ends=True), shard_range("b", [20], epoch=2)]
    rows = task_rows([("a", range(5)), ("a", range(5, 10)), ("b", [20])], ranges)
    consumer, asked = Recorder(), list[tuple[str, int]]()

    def holds(shard_id: str, epoch: int) -> bool:
        asked.append((shard_id, epoch))
        return asked.count(("a", 4)) < 2 or shard_id == "b"

    with caplog.at_level(logging.WARNING):
        counts = deliver(consumer, rows, holds=holds)
    assert consumer.told == [("a", [0, 1, 2, 3, 4]), ("a", "lost"), ("b", [20])]
    assert asked == [("a", 4), ("a", 4), ("b", 2)]
    assert counts == Counts(processed=6, lost_leases=1)
    assert "another worker has the lease now (ours was of epoch 4)" in caplog.text


@pytest.mark.case("W-01")
@pytest.mark.parametrize("policy", [Retry(), DeadLetter("file:///x")], ids=["retry", "letters"])
def test_a_lease_lost_between_attempts_ends_them(policy: FailurePolicy) -> None:
    consumer, aside, slept = Recorder(policy, {5: 99}), Aside(), list[float]()
    deliver(consumer, ten(), holds=lambda *_: not slept, aside=aside, slept=slept)
    assert consumer.told == [("a", "lost")]
    assert not aside.letters


@pytest.mark.case("W-01")
def test_the_lease_is_asked_for_before_each_record_alone() -> None:
    consumer, aside = Recorder(DeadLetter("file:///x", attempts=1), {5: 99}), Aside()
    deliver(consumer, ten(), holds=lambda *_: len(consumer.processed) < 3, aside=aside)
    assert consumer.processed == [0, 1, 2]
    assert consumer.told[-1] == ("a", "lost")
    assert not aside.letters
