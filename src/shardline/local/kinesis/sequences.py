"""Sequence numbers: 56 digits that hold the stream's creation, a tick that only rises, and a shard.

The tick is one counter for the whole stream, so a child's numbers are greater than its parents'.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from shardline.local.refusals import Refusal

_PATTERN = re.compile(r"49(\d{14})(\d{28})(\d{12})", re.ASCII)


class Numbered(NamedTuple):
    """What a sequence number says."""

    created_ms: int
    tick: int
    shard_index: int


def sequence_text(created_ms: int, tick: int, shard_index: int) -> str:
    """Write a sequence number."""
    return f"49{created_ms:014d}{tick:028d}{shard_index:012d}"


def parse_sequence(text: str) -> Numbered:
    """Read a sequence number, or refuse what is none."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise Refusal("InvalidArgumentException", f"{text[:140]!r} is not a valid sequence number.")
    return Numbered(*(int(part) for part in match.groups()))
