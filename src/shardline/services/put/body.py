"""The body of a PutRecords request, and its answer, without botocore's work for each record.

botocore checks, copies and encodes every entry, which takes most of the time of a call. Here the
body is encoded at once; `requests` sends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.services.put.aggregate import aggregated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.writes.order import Lane


class PutEntryResult(msgspec.Struct, rename="pascal", gc=False):
    """What the answer says about one entry."""

    sequence_number: str | None = None
    shard_id: str | None = None
    error_code: str | None = None

    def __post_init__(self) -> None:
        if (self.sequence_number is None) is (self.error_code is None):
            raise msgspec.DecodeError("an entry is neither accepted nor refused")


class _PutAnswer(msgspec.Struct, rename="pascal", gc=False):
    records: list[PutEntryResult]


_DECODE: Final = msgspec.json.Decoder(_PutAnswer).decode


def encode_put(stream: dict[str, Any], call: Iterable[Lane]) -> bytes:
    """Return the body for the taken entries of each lane."""
    records: list[dict[str, Any]] = []
    for lane in call:
        entry = lane.waiting[0]
        data = entry.data if lane.taken == 1 else aggregated(lane.taken_entries())
        record = {"Data": data, "PartitionKey": entry.key}
        if entry.hash_key is not None:
            record["ExplicitHashKey"] = entry.hash_key
        records.append(record)
    return msgspec.json.encode({**stream, "Records": records})


def decode_put(body: bytes) -> list[PutEntryResult]:
    """Return what the answer says about each entry. Raises `msgspec.DecodeError`."""
    return _DECODE(body).records
