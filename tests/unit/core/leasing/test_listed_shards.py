"""What a listing says, and what a row adds to it."""

from __future__ import annotations

from shardline.core.leasing.listed_shards import ListedShards
from shardline.core.leasing.rows import LeaseRow
from shardline.core.shards import SequenceNumber, Shard
from tests.unit.leases.stage import BIRTH, SPACE

ROWS = {"new": LeaseRow(*SPACE, "new", BIRTH, parents=("old",))}


def test_a_row_stands_for_its_shard_until_a_later_listing_lacks_it() -> None:
    listing = ListedShards()
    listing.record([Shard("old")], asked_at=10.0)
    listing.vouch("new", now=12.0)
    assert listing.known(ROWS) == [Shard("old"), Shard("new", ("old",))]
    listing.record([Shard("old")], asked_at=11.0)  # asked for before the row was read
    assert len(listing.known(ROWS)) == 2
    listing.record([Shard("old")], asked_at=13.0)
    assert listing.known(ROWS) == [Shard("old")]


def test_an_end_is_judged_by_a_listing_that_was_asked_for_after_it() -> None:
    listing = ListedShards()
    listing.record([Shard("s0", last=SequenceNumber("9")), Shard("s1")], asked_at=10.0)
    assert listing.closed_since("s0", 10.0) is None
    assert listing.closed_since("s0", 9.0) is True
    assert listing.closed_since("s1", 9.0) is False
    assert listing.closed_since("unlisted", 9.0) is False
    listing.gone.add("expired")
    assert listing.closed_since("expired", 9.0) is True
    listing.record([Shard("s1"), Shard("child", ("s1",))], asked_at=20.0)
    assert listing.closed_since("s1", 19.0) is True
