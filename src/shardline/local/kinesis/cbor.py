"""CBOR encoding of answers, which the AWS SDK for Java uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from shardline.services.wire import cbor


class _Record(msgspec.Struct, rename="pascal"):
    sequence_number: str
    approximate_arrival_timestamp: float
    data: bytes
    partition_key: str


_decode_record = msgspec.json.Decoder(_Record).decode


def record_as_cbor(fragment: bytes) -> bytes:
    """Return the CBOR encoding of a record that is encoded as JSON."""
    record = _decode_record(fragment)
    return cbor.encode(
        {
            "SequenceNumber": record.sequence_number,
            "ApproximateArrivalTimestamp": _time(record.approximate_arrival_timestamp),
            "Data": record.data,
            "PartitionKey": record.partition_key,
        }
    )


def page_as_cbor(records: Sequence[bytes], rest: dict[str, Any]) -> bytes:
    """Return a GetRecords answer from encoded records and its other members."""
    return b"".join([b"\xbf\x67Records\x9f", *records, b"\xff", cbor.encode(rest)[1:], b"\xff"])


def with_times(answer: Any) -> Any:
    """Return an answer with CBOR times: every member whose name ends with Timestamp."""
    match answer:
        case dict():
            return {
                name: _time(value)
                if name.endswith("Timestamp") and isinstance(value, int | float)
                else with_times(value)
                for name, value in answer.items()
            }
        case list():
            return [with_times(value) for value in answer]
    return answer


def _time(seconds: float) -> cbor.Milliseconds:
    return cbor.Milliseconds(round(seconds * 1000))
