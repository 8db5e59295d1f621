"""Positions in a shard: where GetShardIterator and SubscribeToShard start to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from shardline.local.kinesis.sequences import parse_sequence
from shardline.local.kinesis.shards import shard_id_of
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID

if TYPE_CHECKING:
    from shardline.local.kinesis.shards import ShardLog
    from shardline.local.kinesis.streams import Stream


class Start(NamedTuple):
    """A requested starting position."""

    type: str
    sequence: str | None
    timestamp: float | None


def starting_tick(
    stream: Stream, shard: ShardLog, start: Start, operation: str, now_ms: int
) -> int:
    """Return the lowest tick to read, or raise `Refusal`."""
    by_sequence = start.type.endswith("_SEQUENCE_NUMBER")
    if by_sequence != (start.sequence is not None):
        extra = "and no" if by_sequence else "and also a"
        raise Refusal(
            "InvalidArgumentException",
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and "
            "StartingSequenceNumber or (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. "
            f"Request specified {start.type} {extra} StartingSequenceNumber.",
        )
    if start.sequence is not None:
        tick = _sequence_tick(stream, shard, start.sequence, operation)
        return tick + 1 if start.type == "AFTER_SEQUENCE_NUMBER" else tick
    if start.type == "AT_TIMESTAMP":
        return _time_tick(stream, shard, start.timestamp, now_ms)
    return stream.next_tick if start.type == "LATEST" else shard.opened.tick


def _time_tick(stream: Stream, shard: ShardLog, timestamp: float | None, now_ms: int) -> int:
    if timestamp is None:
        raise Refusal(
            "InvalidArgumentException",
            "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. "
            "Current request has no timestamp parameter.",
        )
    at_ms = time_ms(timestamp)
    if at_ms > now_ms:
        raise Refusal(
            "InvalidArgumentException",
            "The timestampInMillis parameter cannot be greater than the "
            f"currentTimestampInMillis. timestampInMillis: {at_ms}, "
            f"currentTimestampInMillis: {now_ms}",
        )
    found = shard.find_time(at_ms)
    return stream.next_tick if found is None else found


def _sequence_tick(stream: Stream, shard: ShardLog, sequence: str, operation: str) -> int:
    """Return the tick of a sequence number of this shard, or raise `Refusal`."""
    parts = parse_sequence(sequence)
    invalid = (
        f"StartingSequenceNumber {sequence} used in {operation} on shard {shard.id} in stream "
        f"{stream.name} under account {ACCOUNT_ID} is invalid"
    )
    if parts is None:
        raise Refusal("InvalidArgumentException", f"{invalid}.")
    if parts.created_ms == stream.created_ms and parts.shard_index != shard.index:
        raise Refusal(
            "InvalidArgumentException",
            f"Invalid StartingSequenceNumber. It encodes {shard_id_of(parts.shard_index)}, while "
            f"it was used in a call to a shard with {shard.id}",
        )
    # The ending sequence number of a closed shard is a bound that no record has: refuse it.
    ticks = range(
        shard.opened.tick, stream.next_tick if shard.closed is None else shard.closed.tick
    )
    if parts.created_ms != stream.created_ms or parts.tick not in ticks:
        raise Refusal(
            "InvalidArgumentException", f"{invalid} because it did not come from this stream."
        )
    return parts.tick


def time_ms(seconds: float) -> int:
    """Return a timestamp in seconds since 1970, rounded up to milliseconds."""
    microseconds = round(seconds * 1_000_000)
    return -(-microseconds // 1000)
