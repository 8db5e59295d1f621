"""Drops records that a writer wrote twice, by a position that rises with each record of a key.

A writer that starts again repeats what it wrote after its last checkpoint, each key in its order
from some earlier record on. So the first copies of the records of a key come in order, and a record
is a repeat exactly if its position is not above the highest one of its key so far. That needs one
position for each key, however long the repeat is and however many writers overlapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

Place = TypeVar("Place", int, tuple[int, ...])


class RepeatFilter(Generic[Place]):
    """Recognises the repeats among the records of a stream. Keep `last` with your own results."""

    def __init__(self, last: Mapping[str, Place] | None = None) -> None:
        self.last: dict[str, Place] = dict(last or {})
        """The highest position of each key."""

    def is_new(self, key: str, position: Place) -> bool:
        """Return true if the record is no repeat, and remember its position then."""
        last = self.last.get(key)
        if last is not None and position <= last:
            return False
        self.last[key] = position
        return True
