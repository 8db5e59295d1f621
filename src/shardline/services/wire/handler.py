"""Response bodies become Arrow columns here; botocore's own parser never sees a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from shardline.services.wire.columns import TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shardline.core.shards import Shard

_ANSWER: Final = "ShardlineAnswer"


@dataclass(frozen=True, slots=True)
class RecordsAnswer:
    """A GetRecords body, decoded."""

    records: pa.RecordBatch
    next_iterator: str | None
    behind_ms: int | None = None
    children: tuple[Shard, ...] = ()


def decode_records_with(
    decode: Callable[[bytes], RecordsAnswer], client: Any, service_id: str
) -> None:
    """Make a client decode GetRecords with this function; `answer_in` finds what it returned.

    botocore offers the raw body before it parses; it is left an empty object to parse.
    """

    def take_body(
        response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
    ) -> None:
        if response_dict["status_code"] == 200:
            customized_response_dict[_ANSWER] = decode(response_dict["body"])
            response_dict["body"] = b"{}"

    client.meta.events.register(f"before-parse.{service_id}.GetRecords", take_body)


def answer_in(response: dict[str, Any]) -> RecordsAnswer:
    """Return what the client's decoder made of the body."""
    answer: RecordsAnswer = response[_ANSWER]
    return answer


def times(seconds: Iterable[float], count: int) -> pa.Array:
    """Make a column of times from JSON's seconds, rounded to the microsecond.

    Truncating would turn 1700000000.123 into …122999: the nearest double lies just below.
    """
    if not isinstance(seconds, np.ndarray):
        seconds = np.fromiter(seconds, np.float64, count)
    micros = np.rint(seconds * 1e6).astype(np.int64)
    return pa.Array.from_buffers(TIME, count, [None, pa.py_buffer(micros)])
