from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from shardline.local.faults import Faults


def test_a_fault_meets_the_next_calls_that_it_fits() -> None:
    faults = Faults()
    faults.add("throttle", "GetRecords", shard_id="s1", times=2)
    assert not faults.take("cut", "GetRecords", "s1")
    assert not faults.take("throttle", "ListShards", "s1")
    assert not faults.take("throttle", "GetRecords", "s2")
    assert not faults.take("throttle", "GetRecords")
    assert faults.take("throttle", "GetRecords", "s1")
    assert faults.take("throttle", "GetRecords", "s1")
    assert not faults.take("throttle", "GetRecords", "s1")
    assert faults.pending() == ()


def test_a_fault_that_begins_later() -> None:
    faults = Faults()
    fault = faults.add("throttle", "PutRecords", after=2, times=1)
    assert not faults.take("throttle", "GetRecords")
    assert not faults.take("throttle", "PutRecords")
    assert not faults.take("throttle", "PutRecords")
    assert fault.after == 0
    assert faults.take("throttle", "PutRecords")
    assert faults.pending() == ()


def test_a_fault_without_an_operation_meets_all() -> None:
    faults = Faults()
    faults.add("throttle", times=None)
    assert all(faults.take("throttle", name) for name in ("GetRecords", "ListShards") * 3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "meteor"}, "unknown fault 'meteor': one of throttle, "),
        ({"kind": "cut", "probability": 1.5}, "between 0 and 1"),
        ({"kind": "cut", "times": 0}, "at least 1"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Faults().add(**wrong)


def test_clearing_lets_what_hangs_go_on() -> None:
    faults = Faults()
    faults.add("hang")
    hanging = faults.take("hang", "GetRecords")
    assert hanging is not None
    assert not hanging.released.is_set()
    faults.clear()
    assert hanging.released.is_set()


def test_draws_repeat_with_the_seed_however_the_calls_interleave() -> None:
    def draws(seed: int, order: str) -> dict[str, list[bool]]:
        faults = Faults(seed)
        found: dict[str, list[bool]] = {"a": [], "b": []}
        for key in order:
            found[key].append(faults.happens(3, "cut-answer", key))
        return found

    assert draws(1, "ab" * 50) == draws(1, "a" * 50 + "b" * 50)
    assert draws(1, "ab" * 50) != draws(2, "ab" * 50)


def test_draws_hit_about_one_in_n_and_never_twice_in_a_row() -> None:
    faults = Faults()
    hits = [faults.happens(4, "key") for _ in range(1000)]
    assert 100 < sum(hits) < 300
    assert not any(first and second for first, second in pairwise(hits))
    assert not any(faults.happens(0, "key") for _ in range(100))
