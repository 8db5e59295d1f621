"""The items of a table: stored, ordered, cut into segments, expired."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shardline.local.dynamodb.table import Schema, StoredItems, TimeToLive
from shardline.local.dynamodb.values import size_of_item

SCHEMA = Schema("h", "r", {"h": "S", "r": "N"})


def item(hash_key: str, range_key: int, **others: Any) -> dict[str, Any]:
    return {"h": {"S": hash_key}, "r": {"N": str(range_key)}, **others}


WRITES = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(-5, 5), st.booleans()), max_size=60
)


@given(WRITES, st.integers(1, 5), st.data())
def test_items_are_those_that_were_put_and_not_deleted(
    writes: list[tuple[str, int, bool]], segments: int, data: st.DataObject
) -> None:
    items, expected = StoredItems(SCHEMA), dict[tuple[str, int], dict[str, Any]]()
    for number, (hash_key, range_key, deleted) in enumerate(writes):
        key = (hash_key, range_key)
        if deleted and key in expected:
            items.delete(item(*key))
            del expected[key]
        elif not deleted:
            expected[key] = item(*key, v={"N": str(number)})
            items.put(expected[key])
    assert len(items) == len(expected)
    assert items.size_bytes == sum(map(size_of_item, expected.values()))
    by_segment = [
        each for s in range(segments) for each in items.scan(segment=s, segments=segments)
    ]
    scanned = list(items.scan())
    assert by_segment == scanned
    assert sorted(map(repr, scanned)) == sorted(map(repr, expected.values()))
    for hash_key in "abcdef":
        ordered = [expected[key] for key in sorted(expected) if key[0] == hash_key]
        assert list(items.of_hash({"S": hash_key})) == ordered
        assert list(items.of_hash({"S": hash_key}, forward=False)) == ordered[::-1]
    if scanned:
        place = data.draw(st.integers(0, len(scanned) - 1))
        assert list(items.scan(scanned[place])) == scanned[place + 1 :]


def test_a_time_to_live_counts_for_the_version_that_is_stored() -> None:
    items = StoredItems(SCHEMA)
    kept, replaced = item("a", 1, ttl={"N": "100"}), item("a", 2, ttl={"N": "100"})
    for each in (kept, replaced, item("a", 3), item("a", 4, ttl={"S": "100"})):
        items.put(each)
    ttl = TimeToLive("ttl", items)
    later = item("a", 2, ttl={"N": "200.5"})
    items.put(later)
    ttl.note(later)
    assert ttl.expired(items, 99_999) == []
    assert ttl.expired(items, 100_000) == [kept]
    items.delete(kept)
    assert ttl.expired(items, 200_499) == []
    assert ttl.expired(items, 200_500) == [later]


def test_a_time_to_live_of_more_than_five_years_ago_is_ignored() -> None:
    items = StoredItems(SCHEMA)
    items.put(item("a", 1, ttl={"N": "100"}))
    assert TimeToLive("ttl", items).expired(items, 6 * 365 * 24 * 3600 * 1000) == []
