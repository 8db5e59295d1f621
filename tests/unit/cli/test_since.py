"""Positions as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.cli.since import parse_since
from shardline.errors import InvalidPosition

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("latest", "latest"),
        ("TRIM_HORIZON", "trim_horizon"),
        ("10m", NOW - timedelta(minutes=10)),
        ("1.5h", NOW - timedelta(minutes=90)),
        ("2D", NOW - timedelta(days=2)),
        ("2026-11-15T11:00:00Z", NOW - timedelta(hours=1)),
        ("2026-11-15T12:00:00+01:00", NOW - timedelta(hours=1)),
    ],
)
def test_places_and_times_are_understood(text: str, meaning: object) -> None:
    assert parse_since(text, NOW) == meaning


@pytest.mark.parametrize("text", ["", "m", "-5m", "10 parsecs", "2026-13-01", "2026-11-15T13:00Z"])
def test_others_are_refused_with_the_forms_that_work(text: str) -> None:
    with pytest.raises(InvalidPosition, match="write 10m"):
        parse_since(text, NOW)
