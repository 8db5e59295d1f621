"""Every decision after a failure, for each policy and everything that can be known about it."""

from __future__ import annotations

from itertools import product

import pytest

from shardline.consumer.policies import (
    DeadLetter,
    Failure,
    FailurePolicy,
    Halt,
    HaltShard,
    Halve,
    PutAside,
    Retry,
    TryAgain,
    after_failure,
)
from shardline.errors import ConfigurationError

ALL_FAILURES = [
    Failure(failures, records, whole, parked)
    for failures, records, whole, parked in product(
        range(1, 6), (1, 2, 3, 1000), (True, False), (0, 1, 2, 3)
    )
]
TO = "file:///letters"


@pytest.mark.case("R-01")
def test_halt_halts_at_the_first_failure() -> None:
    for failure in ALL_FAILURES:
        assert after_failure(Halt(), failure) == HaltShard()


@pytest.mark.case("R-01", "R-02")
def test_retry_tries_as_often_as_it_says_and_then_halts() -> None:
    policy = Retry(attempts=3, first_delay_seconds=1, longest_delay_seconds=1.5)
    for failure in ALL_FAILURES:
        delay = {1: 1.0, 2: 1.5}.get(failure.failures)
        expected = HaltShard() if delay is None else TryAgain(delay)
        assert after_failure(policy, failure) == expected


@pytest.mark.case("R-01")
@pytest.mark.parametrize("per", ["record", "batch", "key"])
def test_dead_letters_try_halve_put_aside_or_halt(per: str) -> None:
    policy = DeadLetter(TO, per=per, attempts=2, most_parked_keys=3)  # type: ignore[arg-type]
    for failure in ALL_FAILURES:
        decision = after_failure(policy, failure)
        tried_often = failure.whole or failure.records == 1
        if tried_often and failure.failures == 1:
            assert decision == TryAgain(0.5)
        elif per == "batch":
            assert decision == PutAside(park=False)
        elif failure.records > 1:
            assert decision == Halve()
        elif per == "record":
            assert decision == PutAside(park=False)
        elif failure.parked_keys < 3:
            assert decision == PutAside(park=True)
        else:
            assert decision == HaltShard("3 keys are parked already")


@pytest.mark.parametrize("per", ["record", "key"])
def test_the_parts_of_a_page_get_smaller_until_one_record_is_put_aside(per: str) -> None:
    """No policy goes round in circles: whatever fails, a decision comes in bounded steps."""
    policy = DeadLetter(TO, per=per, attempts=4)  # type: ignore[arg-type]
    records, whole, steps = 1000, True, 0
    while True:
        failures = 1
        while isinstance(decision := after_failure(policy, Failure(failures, records, whole)),
                         TryAgain):  # fmt: skip
            failures, steps = failures + 1, steps + 1
        steps += 1
        if isinstance(decision, PutAside):
            break
        assert decision == Halve()
        records, whole = records // 2, False
    assert records == 1
    assert steps == 4 + 8 + 4  # the page, each half once (500, 250, … 3), the single record


def test_pauses_double_up_to_the_longest_and_never_overflow() -> None:
    retry = Retry(first_delay_seconds=0.5, longest_delay_seconds=30)
    assert [retry.delay_seconds(n) for n in (1, 2, 3, 6, 7, 8)] == [0.5, 1, 2, 16, 30, 30]
    assert retry.delay_seconds(100_000) == 30


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(attempts=0),
        lambda: DeadLetter(TO, attempts=0),
        lambda: DeadLetter(TO, most_parked_keys=0),
        lambda: DeadLetter(TO, most_parked_keys=1_001),
        lambda: DeadLetter(TO, per="row"),  # type: ignore[arg-type]
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_made(make: object) -> None:
    with pytest.raises(ConfigurationError, match="write"):
        make()  # type: ignore[operator]


def test_policies_are_values() -> None:
    policies: list[FailurePolicy] = [Retry(), Halt(), DeadLetter(TO)]
    assert policies == [Retry(), Halt(), DeadLetter(TO)]
    assert len({*policies, Retry(), Halt(), DeadLetter(TO)}) == 3
