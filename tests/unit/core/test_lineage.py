"""Which shards may be read: every rule by example. The properties are in tests/property."""

from __future__ import annotations

import pytest

from shardline.core.lineage import State, children_of, marks_in_use, trace, uncovered
from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard

HALF = 2**127


def closed(shard_id: str, *parents: str, last: int = 100) -> Shard:
    return Shard(shard_id, parents, last=SequenceNumber(str(last)))


def opened(shard_id: str, *parents: str) -> Shard:
    return Shard(shard_id, parents)


SPLIT = (closed("shard0"), opened("shard1", "shard0"), opened("shard2", "shard0"))
MERGE = (closed("shard0"), closed("shard1"), opened("shard2", "shard0", "shard1"))


def readable(*args: object, **knowledge: object) -> list[str]:
    return [shard.id for shard in trace(*args, **knowledge).readable]  # type: ignore[arg-type]


@pytest.mark.req("O-03", "O-09", "K-20", "K-24")
@pytest.mark.case("L-05")
def test_both_halves_of_a_split_wait_for_their_parent() -> None:
    lineage = trace(SPLIT)
    assert [s.id for s in lineage.readable] == ["shard0"]
    assert lineage["shard1"].state is State.WAITING
    assert lineage["shard1"].waits_for == ("shard0",)
    assert readable(SPLIT, drained={"shard0"}) == ["shard1", "shard2"]


@pytest.mark.req("O-05")
@pytest.mark.case("L-01")
def test_a_merged_shard_waits_for_both_parents() -> None:
    assert trace(MERGE)["shard2"].waits_for == ("shard0", "shard1")
    assert trace(MERGE, drained={"shard0"})["shard2"].waits_for == ("shard1",)
    assert readable(MERGE, drained={"shard0", "shard1"}) == ["shard2"]


@pytest.mark.req("K-23")
@pytest.mark.case("L-02", "L-16")
def test_a_grandchild_waits_for_every_ancestor_even_past_one_marked_drained() -> None:
    shards = (closed("a"), closed("b", "a"), opened("c", "b"))
    assert trace(shards)["c"].waits_for == ("b",)
    torn = trace(shards, drained={"b"})  # marks restored from different moments
    assert torn["c"].state is State.WAITING
    assert torn["c"].waits_for == ("a",)
    assert [s.id for s in torn.readable] == ["a"]


@pytest.mark.case("L-16")
def test_merge_then_split_goes_on_at_the_oldest_unfinished_ancestor() -> None:
    shards = (
        closed("a"),
        closed("b"),
        closed("ab", "a", "b", last=200),
        opened("x", "ab"),
        opened("y", "ab"),
    )
    assert readable(shards, drained={"a"}, known={"a", "b"}) == ["b"]
    assert readable(shards, drained={"a", "b"}, known={"a", "b"}) == ["ab"]
    assert readable(shards, drained={"a", "b", "ab"}) == ["x", "y"]


@pytest.mark.req("K-22")
def test_a_root_is_readable_until_it_is_drained() -> None:
    assert readable([closed("a")]) == ["a"]
    assert readable([closed("a")], drained={"a"}) == []


@pytest.mark.case("L-19")
@pytest.mark.req("O-10", "O-12")
def test_closed_is_not_drained() -> None:
    assert trace(SPLIT)["shard0"].state is State.READABLE


@pytest.mark.case("L-04")
@pytest.mark.req("K-21")
def test_a_parent_missing_from_our_records_and_from_the_listing_is_asked_for_first() -> None:
    child = [opened("child", "parent")]
    asked = trace(child)
    assert asked.undiscovered == ("parent",)
    assert asked["child"].waits_for == ("parent",)
    assert readable(child, gone={"parent"}) == ["child"]


@pytest.mark.req("K-21")
@pytest.mark.case("L-03")
def test_each_parent_of_a_merge_is_judged_by_itself() -> None:
    listed = (closed("shard1"), opened("shard2", "shard0", "shard1"))
    one_gone = trace(listed, gone={"shard0"})
    assert one_gone["shard0"].state is State.TRIMMED
    assert one_gone["shard2"].waits_for == ("shard1",)
    assert readable(listed, gone={"shard0"}, drained={"shard1"}) == ["shard2"]


@pytest.mark.req("K-21")
@pytest.mark.case("L-17")
def test_a_known_unfinished_shard_that_is_gone_is_a_gap_and_a_drained_one_is_not() -> None:
    listed = [opened("child", "parent")]
    assert trace(listed, known={"parent"}).gaps == ()  # one listing proves nothing
    assert trace(listed, known={"parent"}, gone={"parent"}).gaps == ("parent",)
    done = trace(listed, known={"parent"}, drained={"parent"}, gone={"parent"})
    assert done.gaps == ()
    assert done["parent"].state is State.DRAINED


def test_a_listing_outranks_an_older_answer_that_a_shard_is_gone() -> None:
    assert trace([opened("a")], gone={"a"})["a"].state is State.READABLE


@pytest.mark.case("L-12")
def test_a_child_listed_under_a_parent_that_still_looks_open_is_held() -> None:
    lineage = trace([opened("parent"), opened("child", "parent")])
    assert lineage["child"].waits_for == ("parent",)
    assert [s.id for s in lineage.readable] == ["parent"]


@pytest.mark.req("O-08")
def test_closed_shards_come_first_in_the_order_of_their_closing() -> None:
    shards = [opened("now"), closed("tenth", last=10), closed("ninth", last=9)]
    assert readable(shards) == ["ninth", "tenth", "now"]


@pytest.mark.req("O-13", "C-24")
def test_unrelated_lineages_are_readable_side_by_side() -> None:
    shards = (*SPLIT, opened("other"), closed("third", last=1), opened("heir", "third"))
    assert set(readable(shards)) == {"shard0", "other", "third"}


@pytest.mark.case("L-21")
def test_a_drained_shard_without_children_yet_is_simply_drained() -> None:
    before = trace([closed("a")], drained={"a"})
    assert before.readable == ()
    after = trace([closed("a"), opened("b", "a")], drained={"a"})
    assert [s.id for s in after.readable] == ["b"]


def test_a_listing_that_names_a_cycle_frees_nobody() -> None:
    assert trace([opened("a", "b"), opened("b", "a")]).readable == ()


@pytest.mark.case("L-10")
def test_a_drained_mark_is_needed_while_a_listed_shard_names_it() -> None:
    assert marks_in_use([opened("b", "a")], {"a", "long ago"}) == {"a"}
    assert marks_in_use([closed("a")], {"a"}) == {"a"}
    assert marks_in_use([opened("c", "b")], {"a"}) == frozenset()


def test_children_are_found_under_each_parent() -> None:
    assert children_of(MERGE) == {"shard0": ("shard2",), "shard1": ("shard2",)}


@pytest.mark.case("L-14")
def test_holes_in_the_hash_range_are_seen() -> None:
    left = Shard("left", hash_range=HashRange(0, HALF - 1))
    right = Shard("right", hash_range=HashRange(HALF, HASH_SPACE_END))
    assert uncovered([left, right]) == ()
    assert uncovered([left]) == (HashRange(HALF, HASH_SPACE_END),)
    assert uncovered([right]) == (HashRange(0, HALF - 1),)
    assert uncovered([]) == ()
    half_split = [left, Shard("low", ("right",), HashRange(HALF, HALF + 9)), right]
    assert uncovered(half_split) == (HashRange(HALF + 10, HASH_SPACE_END),)
