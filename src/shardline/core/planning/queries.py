"""Queries about one shard, and their answers: what the planner asks, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.core.positions import After, Position


class Kind(Enum):
    """How to look for an end."""

    FORWARD = "forward"
    """Read on after `Query.after`, at most `max_records`."""
    TIME = "time"
    """Read one record at `Query.at` or later."""
    BOOKMARK = "bookmark"
    """Read one record after the bookmark."""
    SET_BOOKMARK = "set bookmark"
    """Open a LATEST iterator and keep it."""


@dataclass(frozen=True, slots=True)
class Query:
    """One call about one shard."""

    shard_id: str
    kind: Kind
    after: Position
    """Where the search stands: an end must lie after it."""
    max_records: int = 1
    at: datetime | None = None
    until: datetime | None = None
    """Records that arrived later do not count."""
    max_bytes: int | None = None
    """Records beyond this are left out of the answer."""
    at_least: int = 0
    """How many records the answer may hold in any case, whatever their size."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave. An empty one proves nothing by itself."""

    query: Query
    service_time: datetime
    rows: int = 0
    size_bytes: int = 0
    first: After | None = None
    """The place before the first record."""
    last: After | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    behind_ms: int | None = None
    ended: bool = False
    """The service gave no further iterator."""
    beyond: bool = False
    """A record later than `until` came: everything that counts lies before it."""
    cut: bool = False
    """Records were left out for their size: the range ends here."""
    expired: bool = False
    """The bookmark was kept for too long, and says nothing."""
    records: Any = None

    @property
    def at_tip(self) -> bool:
        """Return true if the service says that nothing lies after this page."""
        return self.behind_ms == 0 and self.rows < self.query.max_records


@dataclass(frozen=True, slots=True)
class Place:
    """How far a shard was delivered or planned; nothing after it arrived before `as_of`."""

    position: Position
    as_of: datetime
