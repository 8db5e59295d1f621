"""Listings that expire or are empty, and shards that a listing lacks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.shards import Shard
from shardline.errors import ListingExpired, ServiceError
from shardline.services.calls import Patience
from shardline.services.listing import gone_shards, list_whole
from shardline.services.wire.descriptions import ShardPage

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B, C = (Shard(name) for name in "abc")
Step = ShardPage | Exception


def listed(*listings: list[Step]) -> tuple[list[str], int]:
    """List by a script, one list of pages for each time that the listing starts."""
    left = list(listings)

    def pages() -> Iterator[ShardPage]:
        for step in left.pop(0):
            if isinstance(step, Exception):
                raise step
            yield step

    patience = Patience(sleep=lambda _: None)
    shards = list_whole(pages, "kinesis://orders", patience)
    return [shard.id for shard in shards], len(listings) - len(left)


def test_all_pages_are_listed() -> None:
    assert listed([ShardPage((A, B), "next"), ShardPage((C,), None)]) == (["a", "b", "c"], 1)


@pytest.mark.case("X-31")
def test_a_token_that_expired_starts_the_listing_again() -> None:
    expired: list[Step] = [ShardPage((A, B), "next"), ListingExpired("too slow")]
    whole: list[Step] = [ShardPage((A, B), "next"), ShardPage((C,), None)]
    assert listed(expired, whole) == (["a", "b", "c"], 2)
    with pytest.raises(ListingExpired):
        listed(expired, expired, expired)


@pytest.mark.case("X-31")
def test_an_empty_listing_is_asked_for_again() -> None:
    empty: list[Step] = [ShardPage((), None)]
    assert listed(empty, empty, [ShardPage((A,), None)]) == (["a"], 3)
    assert listed(empty, empty, empty) == ([], 3)


def test_a_stream_that_is_off_may_have_no_shards_left() -> None:
    assert listed([ShardPage((), None, enabled=False)]) == ([], 1)


def test_a_listing_that_names_a_shard_twice_is_refused() -> None:
    with pytest.raises(ServiceError, match="names a twice"):
        listed([ShardPage((A,), "next"), ShardPage((A,), None)])


class Shards:
    """Answers for each shard; each of the first calls waits until as many are under way."""

    def __init__(self, present: set[str], at_once: int) -> None:
        self.present = present
        self.asked: list[str] = []
        self._together = threading.Barrier(at_once, timeout=20)
        self._left_to_meet = at_once

    def has_shard(self, shard_id: str) -> bool:
        self.asked.append(shard_id)
        if len(self.asked) <= self._left_to_meet:
            self._together.wait()
        return shard_id in self.present


@pytest.mark.case("Y-06")
def test_many_shards_are_asked_for_one_call_each_and_several_at_once() -> None:
    ids = [str(number) for number in range(100)]
    service: Any = Shards(set(ids[::3]), at_once=4)
    assert gone_shards(service, ids) == set(ids) - set(ids[::3])
    assert sorted(service.asked) == sorted(ids)
    assert gone_shards(service, []) == frozenset()
