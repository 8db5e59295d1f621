"""Sets of shard ids as runs of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardline.core.shard_sets import pack_ids, unpack_ids

NUMBERED = st.integers(0, 40).map("shardId-{:012d}".format)
OTHERS = st.sampled_from(["shardId-00000001414576573621-f55eea83", "shardId-1", "odd"])


@given(st.sets(NUMBERED | OTHERS))
def test_ids_come_back(ids: set[str]) -> None:
    assert sorted(unpack_ids(pack_ids(ids))) == sorted(ids)


def test_runs_of_numbers_are_brief() -> None:
    ids = [f"shardId-{n:012}" for n in (*range(10_000), 12_000)]
    assert pack_ids(ids) == ["0-9999", "12000-12000"]
