"""Since when a shard has been silent, in a service that never names its tip."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.silence import SILENCE, WHOLE_MINUTE, Silence

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def looks(silence: Silence, began: datetime, count: int) -> list[datetime | None]:
    """Return what each of some empty pages shows, ten seconds apart, the first ten seconds on."""
    return [silence.after_page(0, began + SILENCE * n / 3) for n in range(1, count + 1)]


@pytest.mark.case("X-24")
def test_only_time_without_a_record_says_how_far_a_shard_was_read() -> None:
    silence = Silence()
    # However many empty pages come at once, they prove nothing.
    assert [silence.after_page(0, NOW) for _ in range(100)] == [None] * 100
    assert looks(silence, NOW, 2) == [None, None]
    assert silence.after_page(0, NOW + SILENCE) == NOW - WHOLE_MINUTE
    assert looks(silence, NOW + SILENCE, 3)[-1] == NOW + SILENCE - WHOLE_MINUTE


@pytest.mark.case("X-01")
def test_two_empty_pages_say_nothing_about_the_hours_between_them() -> None:
    silence = Silence()
    silence.after_page(0, NOW)
    woken = NOW + timedelta(hours=5)
    assert silence.after_page(0, woken) is None
    assert looks(silence, woken, 3) == [None, NOW - WHOLE_MINUTE, NOW - WHOLE_MINUTE]


def test_who_looks_once_an_hour_learns_of_the_silence_after_a_few_looks() -> None:
    silence, hour = Silence(), timedelta(hours=1)
    found = [silence.after_page(0, NOW + hour * n) for n in range(7)]
    assert found == [None] * 3 + [NOW - WHOLE_MINUTE] * 3 + [NOW + 3 * hour - WHOLE_MINUTE]


def test_a_record_ends_the_silence() -> None:
    silence = Silence()
    silence.after_page(0, NOW)
    assert silence.after_page(1, NOW + SILENCE) is None
    assert silence.after_page(0, NOW + SILENCE) is None
