"""How much of a table was read by a query that starts with the table: whole segments, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

_SEGMENT_BYTES: Final = 32 * 1024 * 1024
"""What a segment holds at most, where the service's count of the table is right."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The segments of a table that the batches up to now hold. A batch holds whole segments.

    A scan has no parameter for its end, and its items may be gone when it is made again. So what
    belongs to a batch is named by segments: reading them again gives every item that is in them.
    """

    segments: int
    """In how many segments the table is read; 0: nothing has been resolved yet."""
    items: int = 0
    """How many items the table had when the service last counted."""
    done: int = 0
    """How many segments were planned so far, from the first one on."""

    @property
    def resolved(self) -> bool:
        """Return true if it is decided in how many segments the table is read."""
        return self.segments > 0

    @property
    def finished(self) -> bool:
        """Return true if every segment was planned."""
        return self.resolved and self.done == self.segments

    def next(self, max_items: int | None) -> TableProgress:
        """Return the progress after another batch, of about so many items; None: of all."""
        left = self.segments - self.done
        if max_items is not None:
            items_per_segment = max(1, -(-self.items // self.segments))
            left = min(left, max(1, max_items // items_per_segment))
        return replace(self, done=self.done + left)

    def to_json(self) -> dict[str, Any]:
        """Write as JSON with sorted keys."""
        return {"done": self.done, "items": self.items, "segments": self.segments}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TableProgress:
        """Read what `to_json` wrote. Raises `ValueError` if it was changed since."""
        read = cls(int(value["segments"]), int(value["items"]), int(value["done"]))
        if not 0 <= read.done <= read.segments:
            raise ValueError(f"{read.done} of {read.segments} segments")
        return read


def segments_for(
    items: int, size_bytes: int, *, max_items: int | None, tasks: int, most: int
) -> int:
    """Return in how many segments to read a table: no more than a batch in each, one a task."""
    by_size = -(-size_bytes // _SEGMENT_BYTES)
    by_items = 1 if max_items is None else -(-items // max_items)
    return min(most, max(1, tasks, by_size, by_items))
