"""Sequence numbers and hash ranges."""

from __future__ import annotations

import pickle

import pytest

from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard, hash_key_of
from shardline.errors import InvalidPosition


@pytest.mark.req("O-08")
def test_sequence_numbers_compare_as_numbers() -> None:
    nine, ten = SequenceNumber("9"), SequenceNumber("10")
    assert nine < ten
    assert max(nine, ten) is ten
    assert SequenceNumber("9" * 128) < SequenceNumber("1" + "0" * 128)


def test_a_sequence_number_keeps_the_text_of_the_service() -> None:
    padded = SequenceNumber("000000000000000000042")
    assert padded == SequenceNumber("42")
    assert hash(padded) == hash(SequenceNumber("42"))
    assert str(padded) == "000000000000000000042"
    assert pickle.loads(pickle.dumps(padded)).text == padded.text  # noqa: S301 - our own value


@pytest.mark.parametrize("text", ["", "-1", "1e3", "٣", " 1", "0x1"])
def test_what_is_no_sequence_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidPosition, match="not a sequence number"):
        SequenceNumber(text)


@pytest.mark.req("K-03")
def test_a_partition_key_hashes_to_its_md5() -> None:
    assert hash_key_of("user-1") == 0xD6D7705392BC7AF633328BEA8C4C6904  # printf user-1 | md5sum
    halves = HashRange(0, 2**127 - 1), HashRange(2**127, HASH_SPACE_END)
    for key in map(str, range(100)):
        assert sum(hash_key_of(key) in half for half in halves) == 1


@pytest.mark.req("O-07")
def test_closed_and_open_are_told_apart_by_the_ending_number() -> None:
    assert Shard("s", last=SequenceNumber("5")).closed
    assert not Shard("s").closed
