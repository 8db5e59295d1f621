from __future__ import annotations

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
