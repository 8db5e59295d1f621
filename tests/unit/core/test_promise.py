"""The checker must catch every way to break a promise, and nothing else."""

from __future__ import annotations

import pytest

from shardline.core.fences import Fence
from shardline.core.promise import Breach, PromiseChecker, RecordRef
from shardline.errors import PromiseBroken


def refs(text: str) -> list[RecordRef]:
    """Read "A1 B1 A2" as records of keys A, B, A at places that the tests can foresee."""
    return [RecordRef(word[0], int(word[1:]) * 100 + ord(word[0])) for word in text.split()]


def wrote(checker: PromiseChecker, shard_id: str, text: str, *parents: str) -> None:
    checker.shard(shard_id, parents)
    for record in refs(text):
        checker.wrote(shard_id, record)


@pytest.fixture
def split() -> PromiseChecker:
    checker = PromiseChecker()
    wrote(checker, "shard0", "A1 B1 A2 B2 A3 B3")
    wrote(checker, "shard1", "A4 A5 A6", "shard0")
    wrote(checker, "shard2", "B4 B5 B6", "shard0")
    return checker


@pytest.fixture
def merge() -> PromiseChecker:
    checker = PromiseChecker()
    wrote(checker, "shard0", "A1 A2 A3")
    wrote(checker, "shard1", "B1 B2 B3")
    wrote(checker, "shard2", "A4 B4 A5 B5 A6 B6", "shard0", "shard1")
    return checker


def breaches(checker: PromiseChecker) -> set[Breach]:
    return set(checker.verdict().breaches) - {Breach.LOST}


@pytest.mark.req("O-06", "O-02", "O-03")
def test_the_split_diagram_in_order_is_kept(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(), refs("A1 B1 A2 B2 A3 B3"))
    split.delivered("shard2", Fence(), refs("B4 B5 B6"))
    split.delivered("shard1", Fence(), refs("A4 A5 A6"))
    verdict = split.verdict().require()
    assert (verdict.written, verdict.delivered, verdict.lost, verdict.repeated) == (12, 12, 0, 0)


@pytest.mark.req("O-06", "O-05")
def test_the_merge_diagram_in_order_is_kept(merge: PromiseChecker) -> None:
    merge.delivered("shard1", Fence(), refs("B1 B2 B3"))
    merge.delivered("shard0", Fence(), refs("A1 A2 A3"))
    merge.delivered("shard2", Fence(), refs("A4 B4 A5 B5 A6 B6"))
    assert merge.verdict().kept


@pytest.mark.req("O-02", "O-03")
def test_a_child_before_its_parents_tail_is_caught(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(), refs("A1 B1 A2 B2"))
    split.delivered("shard1", Fence(), refs("A4"))
    assert breaches(split) == {Breach.CHILD_BEFORE_PARENT, Breach.OUT_OF_ORDER}


@pytest.mark.case("L-01")
def test_a_merged_child_before_its_second_parent_is_caught(merge: PromiseChecker) -> None:
    merge.delivered("shard0", Fence(), refs("A1 A2 A3"))
    merge.delivered("shard2", Fence(), refs("A4"))
    assert breaches(merge) == {Breach.CHILD_BEFORE_PARENT}


def test_swapped_records_are_out_of_order(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(), refs("A2 A1"))
    assert split.verdict().out_of_order == 2  # A2 came before A1, and A1 after A2
    with pytest.raises(PromiseBroken, match="record 1 of key 'A' came before record 0"):
        split.verdict().require()


def test_undelivered_is_lost_and_named(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(), refs("A1 B1 A2 B2 A3 B3"))
    assert split.verdict().lost == 6
    assert "lost: record 3 of key 'A'" in split.verdict().examples


def test_a_higher_fence_may_repeat_back_to_the_checkpoint(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(1, 0), refs("A1 B1"))
    split.checkpointed("shard0", 1, refs("B1")[0].sequence)
    split.delivered("shard0", Fence(1, 1), refs("A2 B2"))
    split.delivered("shard0", Fence(2, 0), refs("A2 B2 A3"))
    assert breaches(split) == set()
    assert split.verdict().repeated == 2


def test_a_repeat_from_before_the_checkpoint_is_caught(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(1, 0), refs("A1 B1"))
    split.checkpointed("shard0", 1, refs("B1")[0].sequence)
    split.delivered("shard0", Fence(2, 0), refs("A1"))
    assert breaches(split) == {Breach.REPLAYED_CHECKPOINTED}


def test_a_repeat_under_the_same_fence_is_out_of_order(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(1, 0), refs("A1 A2"))
    split.delivered("shard0", Fence(1, 0), refs("A1"))
    assert Breach.OUT_OF_ORDER in breaches(split)


def test_a_replay_that_jumps_is_out_of_order(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(1, 0), refs("A1 B1 A2 B2 A3 B3"))
    split.delivered("shard0", Fence(1, 1), refs("A1 A3"))
    assert breaches(split) == {Breach.OUT_OF_ORDER}


@pytest.mark.case("W-01")
def test_a_delivery_below_the_highest_fence_is_stale_and_no_progress(split: PromiseChecker) -> None:
    assert split.delivered("shard0", Fence(2, 0), refs("A1"))
    assert not split.delivered("shard0", Fence(1, 9), refs("A2 B1"))
    assert (split.verdict().stale, split.verdict().delivered) == (2, 1)
    assert breaches(split) == set()


@pytest.mark.case("L-06", "R-03")
def test_a_checkpoint_past_the_undelivered_is_caught(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(), refs("A1"))
    split.checkpointed("shard0", 0, None)
    assert split.verdict().breaches[Breach.CHECKPOINTED_UNDELIVERED] == 5


def test_a_checkpoint_that_goes_back_is_caught(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(), refs("A1 B1"))
    split.checkpointed("shard0", 0, refs("B1")[0].sequence)
    split.checkpointed("shard0", 0, refs("A1")[0].sequence)
    assert breaches(split) == {Breach.CHECKPOINT_WENT_BACK}


@pytest.mark.req("K-07")
@pytest.mark.case("W-02")
def test_a_zombies_checkpoint_is_caught(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(1), refs("A1"), owner="old")
    split.delivered("shard0", Fence(2), refs("A1"), owner="new")
    split.checkpointed("shard0", 1, refs("A1")[0].sequence, owner="old")
    assert breaches(split) == {Breach.ZOMBIE_CHECKPOINT}


@pytest.mark.req("K-07")
def test_two_owners_under_one_epoch_are_caught(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(1, 0), refs("A1"), owner="one")
    split.delivered("shard0", Fence(1, 1), refs("B1"), owner="other")
    assert breaches(split) == {Breach.TWO_OWNERS}


def test_a_record_that_nobody_wrote_is_caught(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(), refs("Z9"))
    assert breaches(split) == {Breach.INVENTED}


@pytest.mark.req("K-02")
def test_a_declared_gap_excuses_exactly_what_lies_in_it(split: PromiseChecker) -> None:
    split.delivered("shard0", Fence(), refs("A1 B1"))
    split.gap("shard0", after=refs("B1")[0].sequence, before=refs("A3")[0].sequence)
    split.delivered("shard0", Fence(), refs("A3 B3"))
    split.delivered("shard1", Fence(), refs("A4 A5 A6"))
    verdict = split.verdict()
    assert breaches(split) == set()
    assert (verdict.in_gaps, verdict.lost) == (2, 3)


@pytest.mark.case("R-08")
def test_user_records_of_one_aggregated_record_have_places_of_their_own() -> None:
    checker = PromiseChecker()
    for sub in range(3):
        checker.wrote("s", RecordRef("k", 5, sub))
    checker.delivered("s", Fence(0, 0), [RecordRef("k", 5, 0), RecordRef("k", 5, 1)])
    checker.checkpointed("s", 0, (5, 1))
    checker.delivered("s", Fence(0, 1), [RecordRef("k", 5, 2)])
    checker.checkpointed("s", 0, 5)
    assert checker.verdict().kept


def test_what_came_after_a_checkpoint_that_was_set_back_may_come_again(
    split: PromiseChecker,
) -> None:
    split.delivered("shard0", Fence(1), refs("A1 B1 A2 B2 A3 B3"))
    split.checkpointed("shard0", 1, None)
    split.rewound("shard0", refs("A2")[0].sequence)
    split.delivered("shard0", Fence(2), refs("B2 A3 B3"))
    assert not breaches(split)
    split.delivered("shard0", Fence(3), refs("A1"))
    assert breaches(split) == {Breach.REPLAYED_CHECKPOINTED}
