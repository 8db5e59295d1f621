"""Whether a history of one compare-and-set register is linearizable.

Every write has a value of its own, so the values that were current form one chain: each
successful write names the value that it replaced. What remains is to find a moment for each
operation between its beginning and its end. Taking the earliest possible moment for each, in the
order of the chain, finds them if they exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outcome(Enum):
    """What became of an operation, as its caller knows it."""

    DONE = "done"
    """A write that succeeded, or a read."""
    REFUSED = "refused"
    """A write that failed because something else was there: it is a read of that."""
    UNKNOWN = "unknown"
    """No answer: a write may have happened, or may happen later."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call, from when it began to when it ended. Values are texts; None is no row."""

    began: float
    ended: float
    outcome: Outcome
    read: str | None = None
    """The value that was found, by a read or by a write that was refused."""
    expected: str | None = None
    written: str | None = None
    """The value to write; None for a read."""


@dataclass(slots=True)
class _Value:
    """All that happened to one value of the register."""

    reads: list[Operation] = field(default_factory=list)
    replaced: list[Operation] = field(default_factory=list)
    """The writes that succeeded in its place."""
    perhaps: list[Operation] = field(default_factory=list)
    """The writes in its place that had no answer."""

    @property
    def seen(self) -> bool:
        """True if somebody read it, or replaced it for certain: then it was current once."""
        return bool(self.reads or self.replaced)


def anomaly(history: Iterable[Operation]) -> str:
    """Return why a history is not linearizable; empty if it is."""
    values: dict[str | None, _Value] = {None: _Value()}
    for operation in history:
        _add(values, operation)
    value: str | None = None
    now = float("-inf")
    while True:
        here = values.pop(value)
        for read in here.reads:
            if now > read.ended:
                return f"{value} was read until {read.ended}, but was written after {now}"
        now = max((now, *(read.began for read in here.reads)))
        if len(here.replaced) > 1:
            return f"{value} was replaced by {[write.written for write in here.replaced]}"
        write = _next(here, values)
        if write is None:
            break
        now = max(now, write.began)
        if write.outcome is Outcome.DONE and now > write.ended:
            return (
                f"{write.written} was written until {write.ended}, but {value} was there at {now}"
            )
        value = write.written
    orphans = [name for name, left in values.items() if left.seen]
    return f"{orphans[0]} was current, though nobody wrote it after {value}" if orphans else ""


def _add(values: dict[str | None, _Value], operation: Operation) -> None:
    if operation.outcome is Outcome.REFUSED or (
        operation.written is None and operation.outcome is Outcome.DONE
    ):
        values.setdefault(operation.read, _Value()).reads.append(operation)
    elif operation.written is not None:
        values.setdefault(operation.written, _Value())
        place = values.setdefault(operation.expected, _Value())
        done = operation.outcome is Outcome.DONE
        (place.replaced if done else place.perhaps).append(operation)


def _next(here: _Value, values: dict[str | None, _Value]) -> Operation | None:
    """Return the write that replaced a value: one that succeeded, or whose value leads on."""
    if here.replaced:
        return here.replaced[0]
    return next((write for write in here.perhaps if _leads_on(write, values)), None)


def _leads_on(write: Operation, values: dict[str | None, _Value]) -> bool:
    """Return true if a value, or one that can only come after it, was seen."""
    frontier, passed = [write.written], set[str | None]()
    while frontier:
        name = frontier.pop()
        place = values.get(name)
        if place is None or name in passed:
            continue
        if place.seen:
            return True
        passed.add(name)
        frontier.extend(after.written for after in place.perhaps)
    return False
