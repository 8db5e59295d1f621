"""PutRecord, PutRecords, GetShardIterator and GetRecords."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.core.shards import HASH_SPACE_END, hash_key_of
from shardline.local.kinesis.account import requested_name
from shardline.local.kinesis.cbor import page_as_cbor, record_as_cbor
from shardline.local.kinesis.listing import child_descriptions
from shardline.local.kinesis.positions import Start, starting_tick
from shardline.local.kinesis.requests import MAX_READ_RECORDS
from shardline.local.kinesis.sequences import parse_sequence
from shardline.local.kinesis.shards import shard_id_of
from shardline.local.kinesis.tokens import (
    ShardIterator,
    parse_iterator,
    require_fresh,
    token_text,
)
from shardline.local.limits import exceeded
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID
from shardline.local.validation import blob_size

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.shards import PageSlice, ShardLog
    from shardline.local.kinesis.streams import Stream

MAX_PUT_BYTES: Final = 10 * 1024 * 1024
MAX_READ_BYTES: Final = 10 * 1024 * 1024
_KIB: Final = 1024

# --- writing ----------------------------------------------------------------------------------


class _Entry(msgspec.Struct, gc=False):
    """A checked record to write. Its data stays in base64 as received."""

    shard: ShardLog
    data: str
    partition_key: str
    size_bytes: int


def put_record(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer PutRecord."""
    stream = account.find_created(request, now_ms)
    entry = _check_entry(request, stream)
    ordering: str | None = request.get("SequenceNumberForOrdering")
    if ordering is not None and not _precedes(ordering, stream):
        raise Refusal(
            "InvalidArgumentException",
            f"ExclusiveMinimumSequenceNumber {ordering} used in PutRecord on stream "
            f"{stream.name} under account {ACCOUNT_ID} is invalid.",
        )
    account.limits.count_write(entry.shard.limits_key, entry.size_bytes, now_ms)
    (number,) = _append(account, stream, entry.shard, [entry], now_ms)
    return {"ShardId": entry.shard.id, "SequenceNumber": number}


def put_records(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer PutRecords. Each record succeeds or fails on its own."""
    stream = account.find_created(request, now_ms)
    entries = [
        _check_entry(record, stream, place)
        for place, record in enumerate(request["Records"], start=1)
    ]
    if sum(entry.size_bytes for entry in entries) > MAX_PUT_BYTES:
        raise Refusal("InvalidArgumentException", "Records size exceeds 10 MB limit")
    results: list[dict[str, str]] = []
    for shard, of_shard in groupby(entries, attrgetter("shard")):
        results += _results(account, stream, shard, list(of_shard), now_ms)
    return {"FailedRecordCount": sum("ErrorCode" in each for each in results), "Records": results}


def _results(
    account: Account, stream: Stream, shard: ShardLog, entries: list[_Entry], now_ms: int
) -> list[dict[str, str]]:
    """Write records to a shard: together if its limits allow all of them, else one by one."""
    size_bytes = sum(entry.size_bytes for entry in entries)
    refusals: list[Refusal | None] = [None] * len(entries)
    written = entries
    if account.faults.any or not account.limits.count_writes(
        shard.limits_key, len(entries), size_bytes, now_ms
    ):
        refusals = [_refusal(account, entry, now_ms) for entry in entries]
        written = [e for e, refusal in zip(entries, refusals, strict=True) if refusal is None]
    numbers = iter(_append(account, stream, shard, written, now_ms))
    return [
        {"SequenceNumber": next(numbers), "ShardId": shard.id}
        if refusal is None
        else {"ErrorCode": refusal.name, "ErrorMessage": refusal.message}
        for refusal in refusals
    ]


def _refusal(account: Account, entry: _Entry, now_ms: int) -> Refusal | None:
    """Count a record of PutRecords; return why it is refused."""
    if account.faults.take("throttle", "PutRecords", entry.shard.id):
        return exceeded("injected fault")
    try:
        account.limits.count_write(entry.shard.limits_key, entry.size_bytes, now_ms)
    except Refusal as refusal:
        return refusal
    return None


def _check_entry(record: dict[str, Any], stream: Stream, place: int | None = None) -> _Entry:
    """Return what is to be written, or raise `Refusal`; `place` is that in a list, from 1 on."""
    received: str | bytes = record["Data"]
    data = received if isinstance(received, str) else b64encode(received).decode()
    data_bytes = blob_size(data)
    partition_key: str = record["PartitionKey"]
    if data_bytes > stream.max_record_kib * _KIB:
        path = "" if place is None else f"records.{place}.member."
        raise Refusal(
            "ValidationException",
            "1 validation error detected: Value 'java.nio.HeapByteBuffer[pos=0 "
            f"lim={data_bytes} cap={data_bytes}]' at '{path}data' failed to satisfy constraint: "
            f"Member must have length less than or equal to {stream.max_record_kib * _KIB}",
        )
    explicit: str | None = record.get("ExplicitHashKey")
    hash_key = hash_key_of(partition_key) if explicit is None else _explicit_hash_key(explicit)
    size_bytes = data_bytes + len(partition_key.encode())
    return _Entry(stream.shard_for(hash_key), data, partition_key, size_bytes)


def _explicit_hash_key(value: str) -> int:
    """Return the value of an ExplicitHashKey, or raise `Refusal`."""
    hash_key = int(value)
    if hash_key > HASH_SPACE_END:
        raise Refusal(
            "InvalidArgumentException",
            "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. "
            f"Specified value was {value}",
        )
    return hash_key


def _precedes(sequence: str, stream: Stream) -> bool:
    """Return true if a sequence number is older than the next record of a stream."""
    parts = parse_sequence(sequence)
    return parts is not None and (
        parts.created_ms < stream.created_ms
        or (parts.created_ms == stream.created_ms and parts.tick < stream.next_tick)
    )


def _append(
    account: Account, stream: Stream, shard: ShardLog, entries: list[_Entry], now_ms: int
) -> list[str]:
    """Append records to a shard; return their sequence numbers."""
    ticks = stream.take_ticks(len(entries))
    numbers = shard.numbers(ticks)
    arrival = _arrival(now_ms)
    fragments = [
        _fragment(number, arrival, e.data, e.partition_key)
        for number, e in zip(numbers, entries, strict=True)
    ]
    sizes = [entry.size_bytes for entry in entries]
    shard.append(ticks, now_ms, fragments, sizes)
    if account.keeps_written:
        account.written += [
            (stream.name, shard.index, *each) for each in zip(ticks, sizes, fragments, strict=True)
        ]
    return numbers


def _fragment(number: str, arrival: str, data: str, partition_key: str) -> bytes:
    """Return a record as GetRecords gives it."""
    key = _as_json(partition_key)
    return f'{{"SequenceNumber":"{number}{arrival}{data}","PartitionKey":{key}}}'.encode()


@lru_cache(maxsize=1)
def _arrival(now_ms: int) -> str:
    """Return what stands between number and data; all records of a request have the same."""
    seconds, millis = divmod(now_ms, 1000)
    return f'","ApproximateArrivalTimestamp":{seconds}.{millis:03d},"Data":"'


@lru_cache(maxsize=10_000)
def _as_json(partition_key: str) -> str:
    return msgspec.json.encode(partition_key).decode()


# --- reading ----------------------------------------------------------------------------------


def get_shard_iterator(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer GetShardIterator."""
    stream, shard = account.find_shard(requested_name(request), request["ShardId"], now_ms)
    start = Start(
        request["ShardIteratorType"],
        request.get("StartingSequenceNumber"),
        request.get("Timestamp"),
    )
    tick = starting_tick(stream, shard, start, "GetShardIterator", now_ms)
    account.limits.count_iterator(shard.limits_key, now_ms)
    return {"ShardIterator": _iterator_at(stream, shard, tick, now_ms)}


def get_records(account: Account, request: dict[str, Any], now_ms: int) -> bytes:
    """Answer GetRecords, joined from records that were encoded when they were written."""
    shard, page, rest = _read(account, request, now_ms)
    # The other members are joined by hand so that the records are copied only once.
    head, tail = b'{"Records":[', b"]," + msgspec.json.encode(rest)[1:]
    fragments = shard.fragments(page)
    if not fragments:
        return head + tail
    fragments[0] = head + fragments[0]
    fragments[-1] += tail
    return b",".join(fragments)


def get_records_in_cbor(account: Account, request: dict[str, Any], now_ms: int) -> bytes:
    """Answer GetRecords in CBOR, from records that were encoded at their first read."""
    shard, page, rest = _read(account, request, now_ms)
    return page_as_cbor(shard.fragments_in_cbor(page, record_as_cbor), rest)


def _read(
    account: Account, request: dict[str, Any], now_ms: int
) -> tuple[ShardLog, PageSlice, dict[str, Any]]:
    """Return a page of a shard and the other members of the answer."""
    iterator = parse_iterator(request["ShardIterator"])
    limit: int = request.get("Limit") or MAX_READ_RECORDS
    shard_id = shard_id_of(iterator.shard_index)
    stream, shard = account.find_shard(iterator.stream, shard_id, now_ms)
    if stream.created_ms != iterator.created_ms:
        raise Refusal(
            "ResourceNotFoundException",
            f"Shard {shard_id} in stream {stream.name} under account {ACCOUNT_ID} does not exist",
        )
    require_fresh(iterator, now_ms)
    key = shard.limits_key
    try:
        account.limits.count_read(key, now_ms)
    except Refusal:
        shard.reads.refused += 1
        raise
    shard.pages += 1
    page = shard.page(iterator.tick, limit, MAX_READ_BYTES)
    every = account.settings.empty_page_every
    if every and shard.pages % every == 0:
        page = page._replace(end=page.start)
    size_bytes = shard.size_bytes(page)
    free_ms = account.limits.count_bytes_read(key, size_bytes, now_ms)
    shard.reads.add(page.end - page.start, size_bytes, now_ms, free_ms=free_ms)
    tick = iterator.tick if page.start == page.end else shard.tick_after(page)
    behind_ms = shard.behind_ms(page.end, now_ms)
    rest: dict[str, Any] = {"NextShardIterator": None}
    if shard.closed is None or behind_ms:
        rest["NextShardIterator"] = _iterator_at(stream, shard, tick, now_ms)
    else:
        rest["ChildShards"] = child_descriptions(shard)
        if account.faults.take("missing-next-iterator", "GetRecords", shard.id):
            del rest["NextShardIterator"]
    rest["MillisBehindLatest"] = behind_ms
    return shard, page, rest


def shard_of_iterator(text: str) -> str:
    """Return the shard id of an iterator."""
    return shard_id_of(parse_iterator(text).shard_index)


def _iterator_at(stream: Stream, shard: ShardLog, tick: int, now_ms: int) -> str:
    return token_text(ShardIterator(stream.name, stream.created_ms, shard.index, tick, now_ms))
