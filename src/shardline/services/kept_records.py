"""Whether a record is still kept by the service: then nothing after it is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.gaps import Evidence
from shardline.core.positions import After
from shardline.core.shards import SequenceNumber
from shardline.errors import PositionTrimmed, ShardNotFound

if TYPE_CHECKING:
    from shardline.core.positions import Position
    from shardline.services.cursor import ShardCursor
    from shardline.services.steps import Steps


def position_at(position: After) -> After:
    """Return the position at a record: with a sub-sequence, a position opens at its record."""
    return After(position.sequence, 0)


def kept_steps(cursor: ShardCursor, position: Position) -> Steps[Evidence]:
    """Ask for the record of a position, through a cursor that was made at `position_at` it."""
    if not isinstance(position, After):
        return Evidence.NONE
    try:
        while True:
            page = yield from cursor.read_steps(1)
            if page.records.num_rows:
                first = SequenceNumber(page.records.column("sequenceNumber")[0].as_py())
                return Evidence.KEPT if first == position.sequence else Evidence.TRIMMED
            if page.next_iterator is None or page.behind_ms == 0:
                return Evidence.TRIMMED
            if page.behind_ms is None:
                return Evidence.KEPT  # DynamoDB Streams took the position: it is not trimmed
    except PositionTrimmed:
        return Evidence.TRIMMED
    except ShardNotFound:
        return Evidence.GONE
