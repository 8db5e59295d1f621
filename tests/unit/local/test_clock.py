from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from shardline.local import Clock

START = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = Clock(START)
    assert clock.now() == START
    clock.advance(1.5)
    assert clock.now() == START + timedelta(seconds=1.5)


def test_a_real_clock_is_ahead_by_what_was_added() -> None:
    clock = Clock()
    before_ms = time.time_ns() // 1_000_000
    clock.advance(3600)
    after_ms = clock.now_ms()
    assert before_ms + 3_600_000 <= after_ms <= time.time_ns() // 1_000_000 + 3_600_000


def test_a_clock_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    now_ms = clock.now_ms()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now_ms() == now_ms
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


@pytest.mark.parametrize("seconds", [1e15, 1e300, float("inf"), float("nan")])
def test_a_clock_has_an_end(seconds: float) -> None:
    clock = Clock(START)
    with pytest.raises(ValueError, match="the clock ends"):
        clock.advance(seconds)
    assert clock.now() == START
