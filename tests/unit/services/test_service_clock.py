"""The service's time, from headers of which one may be wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from shardline.services.service_clock import ServiceClock

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Answers:
    """A service whose clock runs on with ours, and whose headers a test sets."""

    def __init__(self, *headers: str | None) -> None:
        self.headers = list(headers)
        self.now = 1000.0
        self.clock = ServiceClock(lambda: self.now)

    def ask(self) -> datetime:
        _, time = self.clock.ask(self._answer)
        return time

    def _answer(self) -> dict[str, Any]:
        header = self.headers.pop(0)
        return {"ResponseMetadata": {"HTTPHeaders": {} if header is None else {"date": header}}}


def at(time: datetime) -> str:
    return format_datetime(time, usegmt=True)


@pytest.mark.case("X-31")
def test_one_wrong_header_is_not_believed_and_leaves_nothing_behind() -> None:
    answers = Answers(at(NOON), at(NOON + timedelta(days=900)), at(NOON), at(NOON))
    assert [answers.ask() for _ in range(3)] == [NOON] * 3


@pytest.mark.case("X-31")
def test_of_two_wrong_headers_that_disagree_none_is_believed() -> None:
    answers = Answers(at(NOON), at(NOON + timedelta(days=9)), at(NOON - timedelta(days=9)))
    answers.ask()
    answers.now += 7.5
    assert answers.ask() == NOON + timedelta(seconds=7)


def test_a_clock_that_was_set_is_believed_at_the_second_header() -> None:
    later = NOON + timedelta(hours=25)
    answers = Answers(at(NOON), at(later), at(later), at(later))
    assert [answers.ask() for _ in range(3)] == [NOON, later, later]


@pytest.mark.case("X-31")
def test_a_wrong_first_header_is_corrected_by_the_next_answer() -> None:
    answers = Answers(at(NOON + timedelta(days=900)), at(NOON), at(NOON), at(NOON))
    answers.ask()
    assert [answers.ask() for _ in range(2)] == [NOON, NOON]


@pytest.mark.parametrize("header", [None, "soon", "", "Sun, 99 Foo 2026 00:00:00 GMT"])
def test_a_header_that_is_missing_or_garbled_is_made_up_for(header: str | None) -> None:
    answers = Answers(at(NOON), header)
    answers.ask()
    answers.now += 60
    assert answers.ask() == NOON + timedelta(seconds=60)
    alone = Answers(header).ask()
    assert abs(alone - datetime.now(UTC)) < timedelta(minutes=5)
