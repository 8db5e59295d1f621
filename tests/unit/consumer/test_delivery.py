"""What a consumer is given, and what becomes of what it refuses, under each policy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from shardline.consumer.delivery import Cancelled, Delivery, Done, Halted, Unanswered
from shardline.consumer.policies import DeadLetter, Halt, Retry
from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.errors import ConfigurationError, LeaseLost
from shardline.services.steps import Pause
from tests.unit.consumer.shard_pages import (
    SHARD,
    Letters,
    Recorder,
    always,
    before_call,
    changes,
    fences_rise,
    on,
    page,
    run_all,
)

if TYPE_CHECKING:
    from shardline.consumer.consumer import ShardBatch
    from shardline.services.steps import Call

TO = "file:///letters"


def delivery(
    consumer: Recorder,
    letters: Letters | None = None,
    *,
    parked: set[str] | None = None,
    rows: list[tuple[str, str]] | None = None,
) -> Delivery:
    rows = [] if rows is None else rows

    def park(key: str, letter_id: str) -> Call:
        return partial(rows.append, (key, letter_id))

    return Delivery(consumer, SHARD, 4, letters=letters, parked=parked or (), park=park)


@pytest.mark.req("K-34", "K-45")
def test_a_page_is_delivered_once_and_whole() -> None:
    consumer = Recorder()
    steps = delivery(consumer).deliver_steps(page(("a", 1), ("b", 2), ("a", 3)))
    assert run_all(steps) == Done(processed=3)
    assert consumer.tried == [(Fence(4, 1), [1, 2, 3])]


def test_an_empty_page_is_done_without_a_call() -> None:
    consumer = Recorder()
    assert run_all(delivery(consumer).deliver_steps(page())) == Done()
    assert not consumer.tried


@pytest.mark.case("R-01", "R-02", "X-14")
def test_a_rejected_delivery_comes_again_whole_under_a_higher_fence() -> None:
    log: list[object] = []
    consumer = Recorder(Retry(attempts=3, first_delay_seconds=1), fails=before_call(3))
    work = delivery(consumer)
    assert run_all(work.deliver_steps(page(("a", 1), ("a", 2))), log) == Done(2, retries=2)
    assert consumer.tried == [(Fence(4, n), [1, 2]) for n in (1, 2, 3)]
    assert log == [Pause(1), Pause(2)]
    assert run_all(work.deliver_steps(page(("a", 3)))) == Done(1)
    assert consumer.tried[-1] == (Fence(4, 4), [3])


@pytest.mark.case("X-14")
def test_a_try_that_wrote_half_is_replayed_in_order_for_the_checker() -> None:
    """The consumer writes record by record, fails on the third once, and gets all three again."""
    checker = PromiseChecker()
    for number in (1, 2, 3):
        checker.wrote(SHARD, RecordRef("a", number))

    class Writer(Recorder):
        def process(self, batch: ShardBatch) -> None:
            self.tried.append((batch.fence, []))
            for record in batch.records:
                if len(self.tried) == 1 and record.data == b"3":
                    raise OSError("the sink went away")
                checker.delivered(SHARD, batch.fence, [RecordRef("a", int(record.data))])

    run_all(delivery(Writer()).deliver_steps(page(("a", 1), ("a", 2), ("a", 3))))
    verdict = checker.verdict().require()
    assert (verdict.delivered, verdict.repeated) == (3, 2)


@pytest.mark.case("R-01")
def test_halting_says_why_after_telling_which_records_failed() -> None:
    for policy, tries in ((Halt(), 1), (Retry(2, 0), 2)):
        consumer = Recorder(policy, fails=on(2))
        outcome = run_all(delivery(consumer).deliver_steps(page(("a", 1), ("b", 2))))
        assert outcome == Halted("ValueError: no 2 please")
        assert len(consumer.tried) == tries
        assert consumer.failed == [(1, "no 2\nplease"), (2, "no 2\nplease")]


@pytest.mark.case("R-01", "X-14")
def test_one_bad_record_of_many_is_found_by_halving_and_put_aside() -> None:
    consumer = Recorder(DeadLetter(TO, attempts=2), fails=on(700))
    letters = Letters()
    records = page(*[(f"key-{n % 7}", n) for n in range(1000)])
    outcome = run_all(delivery(consumer, letters).deliver_steps(records))
    assert outcome.processed == 999
    assert outcome.dead_lettered == 1
    assert outcome.retries == len(consumer.tried) - 1
    assert consumer.processed == [n for n in range(1000) if n != 700]
    assert [(numbers, reason) for _, numbers, reason in letters.written] == [
        ([700], "ValueError: no 700 please")
    ]
    assert consumer.failed == [(700, "no 700\nplease")]
    assert letters.parked == []
    assert len(consumer.tried) <= 2 + 2 * 10 + 2
    fences = sorted([*(f for f, _ in consumer.tried), *(f for f, _, _ in letters.written)])
    assert fences_rise(fences)
    assert fences_rise([fence for fence, _ in consumer.tried])


def test_a_batch_is_put_aside_as_a_whole() -> None:
    consumer = Recorder(DeadLetter(TO, per="batch", attempts=2), fails=on(2))
    letters = Letters()
    outcome = run_all(delivery(consumer, letters).deliver_steps(page(("a", 1), ("b", 2))))
    assert outcome == Done(0, dead_lettered=2, retries=1)
    assert letters.numbers == [1, 2]


@pytest.mark.case("R-01")
def test_the_later_records_of_a_failed_key_follow_it_and_other_keys_go_on() -> None:
    consumer = Recorder(DeadLetter(TO, per="key", attempts=1), fails=on(3))
    letters = Letters()
    rows: list[tuple[str, str]] = []
    work = delivery(consumer, letters, rows=rows)
    records = page(("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5))
    assert run_all(work.deliver_steps(records)) == Done(3, dead_lettered=2, retries=4)
    assert run_all(work.deliver_steps(page(("a", 6), ("b", 7)))) == Done(1, dead_lettered=1)
    assert consumer.processed == [1, 2, 4, 7]
    assert letters.numbers == letters.parked == [3, 5, 6]
    assert [reason for *_, reason in letters.written][1:] == ["its key is parked"] * 2
    assert rows == [("a", f"{SHARD}/3")]
    assert work.parked == {"a"}


@pytest.mark.case("R-01")
def test_the_letter_is_written_before_the_key_is_parked_and_both_before_the_page_is_done() -> None:
    order: list[str] = []

    class Box(Letters):
        def write(
            self,
            batch: ShardBatch,
            reason: str,
            *,
            parked: bool = False,
            hash_key: str | None = None,
        ) -> tuple[str, ...]:
            order.append("letter")
            return super().write(batch, reason, parked=parked, hash_key=hash_key)

    consumer = Recorder(DeadLetter(TO, per="key", attempts=1), fails=always)
    work = Delivery(
        consumer, SHARD, 4, letters=Box(),
        park=lambda key, letter_id: partial(order.append, f"park {key} {letter_id}"),
    )  # fmt: skip
    assert isinstance(run_all(work.deliver_steps(page(("a", 1)))), Done)
    assert order == ["letter", f"park a {SHARD}/1"]


@pytest.mark.case("R-01")
def test_a_table_with_a_range_key_is_parked_by_its_hash_key() -> None:
    asked: list[int] = []

    def find_hash_key() -> str:
        asked.append(1)
        if len(asked) == 1:
            raise OSError("no answer")
        return "id"

    consumer = Recorder(DeadLetter(TO, per="key", attempts=1), fails=on(0))
    letters, rows = Letters(), list[tuple[str, str]]()
    work = Delivery(
        consumer, SHARD, 4, letters=letters, find_hash_key=find_hash_key,
        park=lambda key, letter_id: partial(rows.append, (key, letter_id)),
    )  # fmt: skip
    items = [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    records = changes(*[f'{{"at":{{"N":"{at}"}},"id":{{"S":"{name}"}}}}' for name, at in items])
    assert run_all(work.deliver_steps(records)).processed == 2
    assert (consumer.processed, letters.parked) == ([1, 3], [0, 2])
    assert rows == [('{"S":"a"}', f"{SHARD}/0")]
    assert letters.hash_keys == {"id"}
    parts = work.split(records, 2)
    assert sorted(part.num_rows for part in parts) in ([0, 4], [2, 2])
    assert len(asked) == 2


def test_keys_that_are_parked_when_the_lease_is_taken_are_not_tried() -> None:
    consumer = Recorder(DeadLetter(TO, per="record"))
    letters = Letters()
    work = delivery(consumer, letters, parked={"a"})
    assert run_all(work.deliver_steps(page(("a", 1), ("b", 2)))) == Done(1, dead_lettered=1)
    assert (consumer.processed, letters.numbers) == ([2], [1])


def test_parked_keys_halt_the_shard_where_the_policy_has_no_dead_letters() -> None:
    consumer = Recorder(Retry())
    work = delivery(consumer, parked={"a"})
    assert run_all(work.deliver_steps(page(("b", 1)))) == Done(1)
    outcome = run_all(work.deliver_steps(page(("b", 2), ("a", 3))))
    assert isinstance(outcome, Halted)
    assert "parked" in outcome.reason


@pytest.mark.case("R-01")
def test_one_key_too_many_halts_the_shard_instead_of_parking_it() -> None:
    policy = DeadLetter(TO, per="key", attempts=1, most_parked_keys=2)
    consumer = Recorder(policy, fails=always)
    letters, rows = Letters(), list[tuple[str, str]]()
    work = delivery(consumer, letters, rows=rows)
    outcome = run_all(work.deliver_steps(page(*[(f"key-{n}", n) for n in range(4)])))
    assert outcome == Halted("ValueError: no 2 please; 2 keys are parked already")
    assert [key for key, _ in rows] == ["key-0", "key-1"]
    assert letters.numbers == [0, 1]


@pytest.mark.case("W-01")
def test_nothing_is_tried_again_when_the_lease_is_gone() -> None:
    consumer = Recorder(Retry(8, 0), fails=always)
    work = Delivery(consumer, SHARD, 4, cancelled=lambda: len(consumer.tried) == 2)
    with pytest.raises(Cancelled, match=r"shardId-000000000001.*epoch 4"):
        run_all(work.deliver_steps(page(("a", 1))))
    assert len(consumer.tried) == 2
    assert not consumer.failed


@pytest.mark.case("W-01")
def test_a_lease_that_is_lost_while_a_key_is_parked_ends_the_delivery() -> None:
    def lost() -> None:
        raise LeaseLost("another worker holds it")

    consumer = Recorder(DeadLetter(TO, per="key", attempts=1), fails=always)
    work = Delivery(consumer, SHARD, 4, letters=Letters(), park=lambda *_: lost)
    with pytest.raises(Cancelled, match="another worker"):
        run_all(work.deliver_steps(page(("a", 1))))


@pytest.mark.case("R-01")
def test_a_letter_that_cannot_be_written_is_tried_until_it_can() -> None:
    class Shaky(Letters):
        refused = 0

        def write(
            self,
            batch: ShardBatch,
            reason: str,
            *,
            parked: bool = False,
            hash_key: str | None = None,
        ) -> tuple[str, ...]:
            if self.refused < 9:
                self.refused += 1
                raise OSError("disk full")
            return super().write(batch, reason, parked=parked, hash_key=hash_key)

    log: list[Any] = []
    letters = Shaky()
    consumer = Recorder(DeadLetter(TO, attempts=1), fails=always)
    outcome = run_all(delivery(consumer, letters).deliver_steps(page(("a", 1))), log)
    assert outcome == Done(0, dead_lettered=1)
    assert letters.numbers == [1]
    assert [pause.seconds for pause in log] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.case("R-01")
def test_a_page_is_not_done_before_its_key_is_known_to_be_parked() -> None:
    asked: list[str] = []

    def park(key: str, _: str) -> Call:
        def ask() -> None:
            asked.append(key)
            if len(asked) < 3:
                raise Unanswered

        return ask

    log: list[Any] = []
    consumer = Recorder(DeadLetter(TO, per="key", attempts=1), fails=always)
    letters = Letters()
    work = Delivery(consumer, SHARD, 4, letters=letters, park=park)
    assert run_all(work.deliver_steps(page(("a", 1))), log) == Done(0, dead_lettered=1)
    assert (asked, len(log), letters.numbers) == (["a"] * 3, 2, [1])


def test_a_hook_that_raises_does_not_keep_the_policy_from_acting() -> None:
    class Bad(Recorder):
        def record_failed(self, record: Any, error: Exception) -> None:  # noqa: ARG002
            raise KeyError("x")

    letters = Letters()
    consumer = Bad(DeadLetter(TO, attempts=1), fails=on(1))
    outcome = run_all(delivery(consumer, letters).deliver_steps(page(("a", 1), ("b", 2))))
    assert outcome == Done(1, dead_lettered=1, retries=2)


def test_what_the_policy_needs_is_asked_for_at_once() -> None:
    with pytest.raises(ConfigurationError, match="no place for dead letters"):
        Delivery(Recorder(DeadLetter(TO)), SHARD, 1)
    with pytest.raises(ConfigurationError, match="lease table"):
        Delivery(
            Recorder(DeadLetter(TO, per="key")), SHARD, 1,
            letters=Letters(),
        )  # fmt: skip
