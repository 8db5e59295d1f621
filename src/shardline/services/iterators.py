"""How a position is asked for: the parameters of GetShardIterator, for both services."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from shardline.core.positions import After, AtTime, Latest, Position, ShardEnd, TrimHorizon
from shardline.errors import InvalidPosition


def iterator_parameters(
    shard_id: str, position: Position, number_name: str = "StartingSequenceNumber"
) -> dict[str, Any]:
    """Return the type of iterator at a position, and the number or time that goes with it.

    `number_name` is the service's name for the sequence number. `After` with a sub-sequence number
    is asked for *at* its record, for the other user records in it.
    """
    match position:
        case TrimHorizon():
            return {"ShardIteratorType": "TRIM_HORIZON"}
        case Latest():
            return {"ShardIteratorType": "LATEST"}
        case AtTime(time):
            return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": _up_to_millisecond(time)}
        case After(sequence, sub_sequence):
            kind = "AFTER_SEQUENCE_NUMBER" if sub_sequence is None else "AT_SEQUENCE_NUMBER"
            return {"ShardIteratorType": kind, number_name: sequence.text}
        case ShardEnd():
            raise InvalidPosition(f"{shard_id} was read to its end: there is nothing to open")


def _up_to_millisecond(time: datetime) -> datetime:
    """Round up to the precision of the service: a record of the millisecond before lies before."""
    return time + timedelta(microseconds=-time.microsecond % 1000)
