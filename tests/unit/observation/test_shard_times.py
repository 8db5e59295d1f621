"""The times of shards, as encoded in sequence numbers and shard ids."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shardline.core.shards import SequenceNumber, Shard
from shardline.observation.shard_times import closed_at, opened_at

# From the documentation of the service: it holds the times of a shard and of a record.
DOCUMENTED = SequenceNumber("49590338271490256608559692538361571095921575989136588898")


@pytest.mark.parametrize(
    ("shard", "opened", "closed"),
    [
        (
            Shard("k", ("p",), first=DOCUMENTED),
            "2018-11-21",
            None,
        ),
        (
            Shard("k", ("p",), last=DOCUMENTED),
            None,
            "2018-12-17",
        ),
        (Shard("shardId-00000001414576573621-f55eea83"), "2014-10-29", None),
        (Shard("k", ("p",), first=SequenceNumber("9223372036854775807")), None, None),
        (Shard("k", ("p",)), None, None),
    ],
)  # fmt: skip
def test_times_are_derived_from_numbers_and_ids(
    shard: Shard, opened: str | None, closed: str | None
) -> None:
    assert _day(opened_at(shard)) == opened
    assert _day(closed_at(shard)) == closed


def _day(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).date().isoformat()
