"""The key of each record, cut out of its columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.consumer.keys import json_text, keys_of
from shardline.errors import ConfigurationError
from tests.unit.consumer.shard_pages import changes, page


def test_kinesis_has_partition_keys() -> None:
    assert keys_of(page(("a", 1), ("", 2))).to_pylist() == ["a", ""]


def test_a_table_without_a_range_key_needs_no_name() -> None:
    records = changes('{"id":{"S":"a"}}', '{"id": {"N": "7"} }', '{"id":{"B":"/w=="}}')
    assert keys_of(records).to_pylist() == ['{"S":"a"}', '{"N": "7"}', '{"B":"/w=="}']
    assert keys_of(records, "id") == keys_of(records)
    assert keys_of(changes()).to_pylist() == []


def test_a_range_key_is_left_out_in_whichever_order_the_service_writes_them() -> None:
    records = changes('{"id":{"S":"a"},"at":{"N":"1"}}', '{"at":{"N":"2"},"id":{"S":"a"}}')
    assert keys_of(records, "id").to_pylist() == ['{"S":"a"}'] * 2
    with pytest.raises(ConfigurationError, match="one of id, at: it must be known"):
        keys_of(records)
    with pytest.raises(ConfigurationError, match='no attribute "name"'):
        keys_of(records, "name")


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
VALUES = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\{}:S'), max_size=9)


@given(names=st.lists(NAMES, min_size=2, max_size=2, unique=True), hashed=VALUES, ranged=VALUES,
       swapped=st.booleans())  # fmt: skip
def test_any_text_in_either_key_gives_the_hash_key_alone(
    names: list[str], hashed: str, ranged: str, swapped: bool
) -> None:
    pairs = [(names[0], {"S": hashed}), (names[1], {"S": ranged})]
    records = changes(json_text(dict(reversed(pairs) if swapped else pairs)))
    assert keys_of(records, names[0]).to_pylist() == [json_text({"S": hashed})]
