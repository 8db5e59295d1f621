"""What a GetRecords body holds, and the rules that the bodies of both services must keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from shardline.core.shards import SEQUENCE_DIGITS
from shardline.services.wire.spans import are_digits, offsets_and_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.core.shards import Shard


@dataclass(frozen=True, slots=True)
class RecordsAnswer:
    """A GetRecords body, decoded."""

    records: pa.RecordBatch
    next_iterator: str | None
    """None at the end of a closed shard, whether the member was null or missing."""
    behind_ms: int | None = None
    children: tuple[Shard, ...] = ()

    def __post_init__(self) -> None:
        if self.next_iterator == "":
            raise msgspec.DecodeError("the next iterator is empty")


def guarded(decode: Callable[[bytes], RecordsAnswer], body: bytes) -> RecordsAnswer:
    """Decode a body; whatever is wrong with it becomes a `msgspec.DecodeError`."""
    try:
        return decode(body)
    except msgspec.DecodeError:
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        # Bad UTF-8, a number that fits no column, or thousands of brackets.
        raise msgspec.DecodeError(f"{type(error).__name__}: {error}") from error


def number_column(numbers: list[str]) -> pa.Array:
    """Return a column of sequence numbers. Raises `msgspec.DecodeError` for what is none."""
    column = pa.array(numbers, pa.string())
    if numbers:
        offsets, text = offsets_and_bytes(column)
        sizes = np.diff(offsets)
        if not are_digits(text) or sizes.min() == 0 or sizes.max() > SEQUENCE_DIGITS:
            raise msgspec.DecodeError("a sequence number is not of digits")
    return column
