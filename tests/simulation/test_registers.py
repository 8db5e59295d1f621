"""The checker of real stores accepts what a register can do, and nothing else."""

from __future__ import annotations

import pytest

from tests.simulation.stores.registers import Operation, Outcome, anomaly

DONE, REFUSED, UNKNOWN = Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN


def read(began: float, ended: float, value: str | None) -> Operation:
    return Operation(began, ended, DONE, value)


def swap(
    began: float, ended: float, expected: str | None, new: str, outcome: Outcome = DONE
) -> Operation:
    return Operation(began, ended, outcome, expected=expected, written=new)


def refused(began: float, ended: float, found: str | None) -> Operation:
    return Operation(began, ended, REFUSED, found, expected="x", written="y")


GOOD = {
    "nothing": [],
    "in turn": [read(0, 1, None), swap(1, 2, None, "a"), read(2, 3, "a"), swap(3, 4, "a", "b")],
    "an old value while a write is under way": [swap(0, 9, None, "a"), read(1, 2, None)],
    "a write without an answer that happened": [swap(0, 1, None, "a", UNKNOWN), read(5, 6, "a")],
    "a write without an answer that did not": [swap(0, 1, None, "a", UNKNOWN), read(5, 6, None)],
    "one that happened long after": [
        swap(0, 1, None, "a", UNKNOWN), read(5, 6, None), read(7, 8, "a"),
    ],
    "seen only by what replaced it": [swap(0, 1, None, "a", UNKNOWN), swap(2, 3, "a", "b")],
    "refused by what is there": [swap(0, 1, None, "a"), refused(2, 3, "a")],
}  # fmt: skip

BAD = {
    "two writes in place of one value": [swap(0, 1, None, "a"), swap(0, 1, None, "b")],
    "a value after it was replaced": [
        swap(0, 1, None, "a"), swap(1, 2, "a", "b"), read(3, 4, "a"),
    ],
    "a value before it was written": [read(0, 1, "a"), swap(2, 3, None, "a")],
    "a value that nobody wrote": [read(0, 1, "z")],
    "a lost write": [swap(0, 1, None, "a"), read(2, 3, None)],
    "a replaced value that was never there": [swap(0, 1, "z", "b")],
    "refused by what was replaced before": [
        swap(0, 1, None, "a"), swap(1, 2, "a", "b"), refused(3, 4, "a"),
    ],
    "back and forth": [
        swap(0, 1, None, "a", UNKNOWN), read(2, 3, "a"), read(4, 5, None),
    ],
    "a write that ended before what it replaced began": [
        swap(0, 1, "a", "b"), swap(2, 3, None, "a"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_a_register_can_do_is_accepted(name: str) -> None:
    assert anomaly(GOOD[name]) == ""


@pytest.mark.parametrize("name", BAD)
def test_what_a_register_cannot_do_is_found(name: str) -> None:
    assert anomaly(BAD[name])
