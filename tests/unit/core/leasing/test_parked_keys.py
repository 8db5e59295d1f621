"""Which parked keys a child inherits."""

from __future__ import annotations

from shardline.core.leasing.parked_keys import ParkedKey, inherited_keys


def test_a_child_inherits_what_its_parents_have_and_it_lacks() -> None:
    rows = [
        ParkedKey("app", "orders", "p1", "a", "letter-1", 3),
        ParkedKey("app", "orders", "p2", "a", "letter-2", 4),
        ParkedKey("app", "orders", "p2", "b", "letter-3", 4),
        ParkedKey("app", "orders", "child", "b", "letter-9", 7),
        ParkedKey("app", "orders", "stranger", "c", "letter-4", 5),
    ]
    assert list(inherited_keys("child", ("p1", "p2"), 8, rows)) == [
        ParkedKey("app", "orders", "child", "a", "letter-1", 8)
    ]
    assert list(inherited_keys("child", (), 8, rows)) == []
