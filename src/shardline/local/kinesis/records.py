"""PutRecord, PutRecords, GetShardIterator and GetRecords."""

from __future__ import annotations

import binascii
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.core.shards import hash_key_of
from shardline.local import parameters
from shardline.local.kinesis.cbor import page_as_cbor, record_as_cbor
from shardline.local.kinesis.listing import hash_key_range
from shardline.local.kinesis.sequences import parse_sequence
from shardline.local.kinesis.tokens import (
    ShardIterator,
    parse_iterator,
    require_fresh,
    token_text,
)
from shardline.local.limits import exceeded
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.shards import PageSlice, ShardLog
    from shardline.local.kinesis.streams import Stream

MAX_RECORD_BYTES: Final = 1024 * 1024
MAX_PUT_RECORDS: Final = 500
MAX_PUT_BYTES: Final = 10 * 1024 * 1024
MAX_READ_BYTES: Final = 10 * 1024 * 1024
MAX_READ_RECORDS: Final = 10_000

# --- writing ----------------------------------------------------------------------------------


class _Entry(msgspec.Struct):
    """A checked record to write. Its data stays in base64 as received."""

    data: str
    partition_key: str
    hash_key: int
    size_bytes: int


def put_record(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer PutRecord."""
    stream = account.find_created(request, now_ms)
    entry = _check_entry(request)
    ordering = parameters.text(request, "SequenceNumberForOrdering", required=False)
    if ordering is not None and parse_sequence(ordering).tick >= stream.next_tick:
        raise Refusal(
            "InvalidArgumentException",
            f"SequenceNumberForOrdering {ordering} was not given by this stream.",
        )
    shard, number = _write(account, stream, entry, now_ms)
    return {"ShardId": shard.id, "SequenceNumber": number}


def put_records(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer PutRecords. Each record succeeds or fails on its own."""
    stream = account.find_created(request, now_ms)
    records = request.get("Records")
    if not isinstance(records, list):
        raise Refusal("SerializationException", "Records must be a list.")
    if not 1 <= len(records) <= MAX_PUT_RECORDS:
        raise Refusal(
            "ValidationException",
            f"Records holds {len(records)}: 1 to {MAX_PUT_RECORDS} are allowed.",
        )
    entries = [_check_entry(record) for record in records]
    if sum(entry.size_bytes for entry in entries) > MAX_PUT_BYTES:
        raise Refusal("InvalidArgumentException", "Records hold more than 10 MiB together.")
    results: list[dict[str, str]] = []
    failed = 0
    for entry in entries:
        try:
            if account.faults.take("throttle", "PutRecords", stream.shard_for(entry.hash_key).id):
                raise exceeded("injected fault")
            shard, number = _write(account, stream, entry, now_ms)
            results.append({"SequenceNumber": number, "ShardId": shard.id})
        except Refusal as refusal:
            failed += 1
            results.append({"ErrorCode": refusal.name, "ErrorMessage": refusal.message})
    return {"FailedRecordCount": failed, "Records": results}


def _check_entry(record: Any) -> _Entry:
    if not isinstance(record, dict):
        raise Refusal("SerializationException", "A record must be an object.")
    data, size_bytes = _data_of(record)
    if size_bytes > MAX_RECORD_BYTES:
        raise Refusal(
            "ValidationException", f"Data holds {size_bytes} bytes: {MAX_RECORD_BYTES} are allowed."
        )
    partition_key = parameters.text(record, "PartitionKey")
    if not 1 <= len(partition_key) <= 256:
        raise Refusal("ValidationException", "PartitionKey must be 1 to 256 characters long.")
    explicit = parameters.text(record, "ExplicitHashKey", required=False)
    hash_key = (
        hash_key_of(partition_key)
        if explicit is None
        else parameters.hash_key(explicit, "ExplicitHashKey")
    )
    return _Entry(data, partition_key, hash_key, size_bytes + len(partition_key.encode()))


def _data_of(record: dict[str, Any]) -> tuple[str, int]:
    """Return the data in base64 and their size in bytes; CBOR requests carry raw bytes."""
    data = record.get("Data")
    if isinstance(data, bytes):
        return b64encode(data).decode(), len(data)
    text = parameters.text(record, "Data")
    try:
        return text, len(binascii.a2b_base64(text, strict_mode=True))
    except (binascii.Error, ValueError):
        raise Refusal("SerializationException", "Data is not base64.") from None


def _write(account: Account, stream: Stream, entry: _Entry, now_ms: int) -> tuple[ShardLog, str]:
    shard = stream.shard_for(entry.hash_key)
    if account.limits.enabled:
        account.limits.count_write(_limits_key(stream, shard), entry.size_bytes, now_ms)
    tick = stream.take_tick()
    number = shard.number(tick)
    fragment = (
        (
            f'{{"SequenceNumber":"{number}",'
            f'"ApproximateArrivalTimestamp":{now_ms // 1000}.{now_ms % 1000:03d},'
            f'"Data":"{entry.data}","PartitionKey":'
        ).encode()
        + msgspec.json.encode(entry.partition_key)
        + b"}"
    )
    shard.append(tick, now_ms, fragment, entry.size_bytes)
    if account.keeps_written:
        account.written.append((stream.name, shard.index, tick, entry.size_bytes, fragment))
    return shard, number


# --- reading ----------------------------------------------------------------------------------


def get_shard_iterator(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer GetShardIterator."""
    stream = account.find_created(request, now_ms)
    shard = stream.find_shard(parameters.text(request, "ShardId"))
    tick = _starting_tick(stream, shard, request, now_ms)
    account.limits.count_iterator(_limits_key(stream, shard), now_ms)
    return {"ShardIterator": _iterator_at(stream, shard, tick, now_ms)}


def _starting_tick(stream: Stream, shard: ShardLog, request: dict[str, Any], now_ms: int) -> int:
    match parameters.text(request, "ShardIteratorType"):
        case "TRIM_HORIZON":
            return shard.opened.tick
        case "LATEST":
            return stream.next_tick
        case "AT_TIMESTAMP":
            time_ms = parameters.time_ms(request, "Timestamp")
            if time_ms > now_ms:
                raise Refusal("InvalidArgumentException", "Timestamp must not lie in the future.")
            found = shard.find_time(time_ms)
            return stream.next_tick if found is None else found
        case "AT_SEQUENCE_NUMBER":
            return _requested_tick(stream, shard, request)
        case "AFTER_SEQUENCE_NUMBER":
            return _requested_tick(stream, shard, request) + 1
        case other:
            raise Refusal("ValidationException", f"ShardIteratorType {other[:60]!r} is unknown.")


def _requested_tick(stream: Stream, shard: ShardLog, request: dict[str, Any]) -> int:
    """Return the tick of a sequence number of this shard, or raise `Refusal`."""
    text = parameters.text(request, "StartingSequenceNumber", required=False)
    if text is None:
        raise Refusal("InvalidArgumentException", "StartingSequenceNumber is required here.")
    numbered = parse_sequence(text)
    # The ending sequence number of a closed shard is a bound that no record has: refuse it.
    ticks = range(
        shard.opened.tick, stream.next_tick if shard.closed is None else shard.closed.tick
    )
    if (
        numbered.created_ms != stream.created_ms
        or numbered.shard_index != shard.index
        or numbered.tick not in ticks
    ):
        raise Refusal(
            "InvalidArgumentException",
            f"StartingSequenceNumber {text} used in GetShardIterator on shard {shard.id} in stream "
            f"{stream.name} is invalid because it did not come from this stream and shard.",
        )
    return numbered.tick


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
    iterator = parse_iterator(parameters.text(request, "ShardIterator"))
    limit = parameters.integer(request, "Limit", 1, MAX_READ_RECORDS, default=MAX_READ_RECORDS)
    stream = account.find(iterator.stream, now_ms)
    if stream.created_ms != iterator.created_ms:
        raise Refusal(
            "ResourceNotFoundException", f"Stream {stream.name} was deleted and created again."
        )
    require_fresh(iterator, now_ms)
    shard = stream.find_shard(f"shardId-{iterator.shard_index:012d}")
    key = _limits_key(stream, shard)
    account.limits.count_read(key, now_ms)
    shard.reads += 1
    page = shard.page(iterator.tick, limit, MAX_READ_BYTES)
    every = account.settings.empty_page_every
    if every and shard.reads % every == 0:
        page = page._replace(end=page.start)
    account.limits.count_bytes_read(key, shard.size_bytes(page), now_ms)
    tick = iterator.tick if page.start == page.end else shard.tick_after(page)
    behind_ms = shard.behind_ms(page.end, now_ms)
    rest: dict[str, Any] = {"NextShardIterator": None}
    if shard.closed is None or behind_ms:
        rest["NextShardIterator"] = _iterator_at(stream, shard, tick, now_ms)
    else:
        rest["ChildShards"] = [_child_description(child) for child in shard.children]
        if account.faults.take("missing-next-iterator", "GetRecords", shard.id):
            del rest["NextShardIterator"]
    rest["MillisBehindLatest"] = behind_ms
    return shard, page, rest


def shard_of_iterator(text: str) -> str:
    """Return the shard id of an iterator."""
    return f"shardId-{parse_iterator(text).shard_index:012d}"


def _child_description(child: ShardLog) -> dict[str, Any]:
    return {
        "ShardId": child.id,
        "ParentShards": [parent.id for parent in child.parents],
        "HashKeyRange": hash_key_range(child),
    }


def _iterator_at(stream: Stream, shard: ShardLog, tick: int, now_ms: int) -> str:
    return token_text(ShardIterator(stream.name, stream.created_ms, shard.index, tick, now_ms))


def _limits_key(stream: Stream, shard: ShardLog) -> str:
    return f"{stream.name}@{stream.created_ms}/{shard.id}"
