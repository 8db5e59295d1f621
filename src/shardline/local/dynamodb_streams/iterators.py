"""Iterators and pages of the embedded DynamoDB Streams."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from shardline.local.dynamodb_streams.changes import StoredChange, sequence_number
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.dynamodb_streams.control import Tables
    from shardline.local.dynamodb_streams.state import StoredShard, StoredStream

ITERATOR_MS: Final = 15 * 60 * 1000
MAX_RECORDS: Final = 1000
MAX_PAGE_BYTES: Final = 1024 * 1024

IteratorType = Literal[
    "TRIM_HORIZON", "LATEST", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "AT_TIMESTAMP"
]


class _IteratorPlace(NamedTuple):
    arn: str
    shard_id: str
    number: int
    """The lowest sequence number of the next page."""
    made_ms: int

    def text(self) -> str:
        # Iterators of AWS begin with the ARN too and are opaque after it.
        place = f"{self.shard_id}|{self.number}|{self.made_ms}"
        return f"{self.arn}|1|{base64.b64encode(place.encode()).decode()}"

    @classmethod
    def of(cls, text: str) -> _IteratorPlace:
        try:
            arn, _, place = text.split("|")
            shard_id, number, made_ms = base64.b64decode(place, validate=True).decode().split("|")
            return cls(arn, shard_id, int(number), int(made_ms))
        except (ValueError, binascii.Error) as fault:
            raise Refusal("ValidationException", "Invalid ShardIterator") from fault


def open_shard(
    stream: StoredStream,
    shard_id: str,
    kind: IteratorType,
    *,
    sequence: str | None = None,
    timestamp: float | None = None,
    now_ms: int,
) -> str:
    """Return an iterator at a position of a shard, or raise `Refusal`."""
    shard = stream.shard(shard_id, now_ms)
    if (sequence is not None) != kind.endswith("SEQUENCE_NUMBER"):
        raise Refusal(
            "ValidationException", f"SequenceNumber does not go with ShardIteratorType {kind}"
        )
    if (timestamp is not None) != (kind == "AT_TIMESTAMP"):
        raise Refusal("ValidationException", f"Timestamp does not go with ShardIteratorType {kind}")
    if sequence is not None:
        number = _number_in(shard, sequence, kind) + (kind == "AFTER_SEQUENCE_NUMBER")
    elif timestamp is not None:
        number = _number_at(shard, timestamp, now_ms)
    elif kind == "LATEST":
        number = shard.newest + 1
    else:
        number = max(shard.first, shard.trimmed) + 1
    return _IteratorPlace(stream.arn, shard.id, number, now_ms).text()


def shard_of_iterator(iterator: str) -> str | None:
    """Return the shard id of an iterator, or None for an invalid iterator."""
    try:
        return _IteratorPlace.of(iterator).shard_id
    except Refusal:
        return None


def read_shard(
    tables: Tables, iterator: str, limit: int, now_ms: int, *, empty_page_every: int = 0
) -> tuple[list[StoredChange], str | None]:
    """Return one page of changes and the next iterator, which is None at the end of a shard.

    Every n-th page of a shard is empty, if `empty_page_every` says so.
    """
    place = _IteratorPlace.of(iterator)
    if limit > MAX_RECORDS:
        raise Refusal("LimitExceededException", f"Limit is {limit}; at most {MAX_RECORDS} a call")
    stream = tables.find_stream_by_arn(place.arn, now_ms)
    if place.made_ms + ITERATOR_MS <= now_ms:
        raise Refusal(
            "ExpiredIteratorException",
            "Iterator expired: it was created more than 15 minutes ago",
        )
    shard = stream.shard(place.shard_id, now_ms)
    if place.number <= shard.trimmed:
        raise _trimmed(shard, place.number)
    shard.reads += 1
    if empty_page_every and shard.reads % empty_page_every == 0:
        limit = 0
    page: list[StoredChange] = []
    size = 0
    start = shard.index_of(place.number)
    for change in shard.changes[start : start + limit]:
        size += change.size_bytes
        if page and size > MAX_PAGE_BYTES:
            break
        page.append(change)
    if shard.last is not None and start + len(page) == len(shard.changes):
        return page, None
    number = page[-1].number + 1 if page else place.number
    return page, place._replace(number=number, made_ms=now_ms).text()


def _number_in(shard: StoredShard, sequence: str, kind: IteratorType) -> int:
    number = sequence_number(sequence)
    if number <= shard.trimmed:
        raise _trimmed(shard, number)
    index = shard.index_of(number)
    is_record = index < len(shard.changes) and shard.changes[index].number == number
    if not is_record and number != shard.first:
        # The ending number of a closed shard is a bound that no record has.
        raise Refusal(
            "ValidationException",
            f"Invalid SequenceNumber for ShardIteratorType {kind}: {sequence} is not in {shard.id}",
        )
    return number


def _number_at(shard: StoredShard, timestamp: float, now_ms: int) -> int:
    if timestamp * 1000 > now_ms:
        raise Refusal("ValidationException", "Timestamp lies in the future")
    for change in shard.changes:
        if change.created_seconds >= timestamp:
            return change.number
    return shard.newest + 1


def _trimmed(shard: StoredShard, number: int) -> Refusal:
    return Refusal(
        "TrimmedDataAccessException",
        f"{number} is beyond the trim horizon of {shard.id}: records live for 24 hours",
    )
