"""How much one batch may hold, and of each shard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.planning.limits import Settings

if TYPE_CHECKING:
    from shardline.core.planning.limits import Bounds

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def bounds(settings: Settings, *, shards: int, max_records: int | None) -> Bounds:
    return settings.bounds(
        now=NOON, closed=False, until=None, shards=shards, max_records=max_records
    )


@pytest.mark.case("Y-08")
def test_shards_share_a_batch_and_none_gets_too_little_to_be_worth_a_task() -> None:
    settings = Settings(finds_times=True)
    assert bounds(settings, shards=4, max_records=100_000).max_records == 25_000
    assert bounds(settings, shards=1_000, max_records=10_000).max_records == 1_000
    assert bounds(settings, shards=1_000, max_records=10).max_records == 10


def test_the_limit_of_a_shard_lies_below_its_share() -> None:
    settings = Settings(finds_times=True, max_records_per_shard=500)
    assert bounds(settings, shards=4, max_records=100_000).max_records == 500


def test_a_query_for_everything_has_no_limits() -> None:
    unlimited = bounds(Settings(finds_times=True, max_bytes=10), shards=4, max_records=None)
    assert (unlimited.max_records, unlimited.max_bytes, unlimited.window) == (None, None, None)


def test_a_window_is_so_long_that_a_shard_cannot_fill_it_beyond_the_limits() -> None:
    settings = Settings(finds_times=True, max_bytes=8 * 1024 * 1024)
    assert bounds(settings, shards=4, max_records=1_000_000).window == timedelta(
        seconds=(2 * 1024 * 1024 - 1) / (1024 * 1024) - 1
    ), "a shard that was idle takes as much as in another second at once"
    assert bounds(settings, shards=1, max_records=900).window == timedelta(0)


def test_what_travels_with_the_tasks_is_bounded_for_all_shards_together() -> None:
    settings = Settings(finds_times=True)
    assert settings.inline_bytes(1) < 1_000 * 1024  # above that Spark warns of the task
    assert settings.inline_bytes(1_000) * 1_000 <= 8_000_000
