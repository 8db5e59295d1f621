"""Sequence numbers: 56 digits from the stream's creation time, a rising tick and the shard index.

The tick is one counter for the whole stream, so a child's numbers are greater than its parents'.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PATTERN = re.compile(r"49(\d{14})(\d{28})(\d{12})", re.ASCII)


class SequenceParts(NamedTuple):
    """The parts of a sequence number."""

    created_ms: int
    tick: int
    shard_index: int


def sequence_ends(created_ms: int, shard_index: int) -> tuple[str, str]:
    """Return what stands before and after the 28 digits of the tick in the numbers of a shard."""
    return f"49{created_ms:014d}", f"{shard_index:012d}"


def parse_sequence(text: str) -> SequenceParts | None:
    """Return the parts of a sequence number, or None if it is not one of this service."""
    match = _PATTERN.fullmatch(text)
    return None if match is None else SequenceParts(*(int(part) for part in match.groups()))
