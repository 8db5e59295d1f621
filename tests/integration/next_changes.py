"""Waits for the changes of a stream of items."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from shardline.tables.changes import Change, ChangeStream

T = TypeVar("T")
DEADLINE_SECONDS = 120


def next_changes(stream: ChangeStream[T], count: int) -> list[Change[T]]:
    """Return the next changes, however long they take to come."""
    changes: list[Change[T]] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(changes) < count:
        assert time.monotonic() < deadline, f"only {len(changes)} of {count} changes came"
        change = next(stream)
        if change is not None:
            changes.append(change)
    return changes
