"""Positions in a shard."""

from __future__ import annotations

from datetime import datetime

import pytest

from shardline.core.positions import AtTime
from shardline.errors import InvalidPosition


def test_a_time_without_a_zone_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidPosition, match="has no time zone: pass an aware datetime"):
        AtTime(datetime(2026, 1, 1))
