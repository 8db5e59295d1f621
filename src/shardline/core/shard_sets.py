"""Sets of shard ids, written briefly: Kinesis numbers its shards, and runs are common."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NUMBERED: Final = re.compile(r"shardId-(\d{12})")


def pack_ids(shard_ids: Iterable[str]) -> list[str]:
    """Return ids as sorted runs of numbers ("3-17"), and in full where they are not numbered."""
    numbers: list[int] = []
    others: list[str] = []
    for shard_id in shard_ids:
        match = _NUMBERED.fullmatch(shard_id)
        if match is None:
            others.append(shard_id)
        else:
            numbers.append(int(match[1]))
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [f"{first}-{last}" for first, last in runs] + sorted(others)


def unpack_ids(packed: Iterable[str]) -> list[str]:
    """Return the ids that `pack_ids` wrote."""
    shard_ids: list[str] = []
    for item in packed:
        match = re.fullmatch(r"(\d+)-(\d+)", item)
        if match is None:
            shard_ids.append(item)
        else:
            first, last = int(match[1]), int(match[2])
            shard_ids += [f"shardId-{number:012}" for number in range(first, last + 1)]
    return shard_ids
