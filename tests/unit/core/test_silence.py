"""Since when a shard has been silent, in a service that never names its tip."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.silence import SILENCE, WHOLE_MINUTE, Silence

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.case("X-24")
def test_only_time_without_a_record_says_how_far_a_shard_was_read() -> None:
    silence = Silence()
    # However many empty pages come at once, they prove nothing.
    assert [silence.after_page(0, NOW) for _ in range(100)] == [None] * 100
    assert silence.after_page(0, NOW + SILENCE - timedelta(seconds=1)) is None
    assert silence.after_page(0, NOW + SILENCE) == NOW - WHOLE_MINUTE
    later = NOW + timedelta(hours=5)
    assert silence.after_page(0, later) == later - SILENCE - WHOLE_MINUTE


def test_a_record_ends_the_silence() -> None:
    silence = Silence()
    silence.after_page(0, NOW)
    assert silence.after_page(1, NOW + SILENCE) is None
    assert silence.after_page(0, NOW + SILENCE) is None
