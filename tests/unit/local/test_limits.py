"""The limits of the embedded service."""

from __future__ import annotations

import pytest

from shardline.local.limits import Limits
from shardline.local.refusals import Refusal


def test_limits_that_are_switched_on_again_begin_with_full_buckets() -> None:
    limits = Limits(enabled=True)
    limits.count_bytes_read("shard", 10_000_000, 0)
    limits.enabled = True
    with pytest.raises(Refusal):
        limits.count_read("shard", 1_000)
    limits.enabled = False
    limits.count_read("shard", 1_000)
    limits.enabled = True
    limits.count_read("shard", 1_000)
