"""Shards, hash ranges and sequence numbers, as the services define them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

from shardline.errors import InvalidPosition

HASH_SPACE_END: Final = 2**128 - 1
"""The last hash key. Kinesis hashes partition keys with MD5, which has 128 bits."""

SEQUENCE_DIGITS: Final = 129
"""No service gives a sequence number more digits."""


@total_ordering
class SequenceNumber:
    """A record's number in its shard: decimal digits that compare as a number.

    The text is kept as the service wrote it: DynamoDB pads with zeros, and expects them back.
    """

    __slots__ = ("_number", "text")

    def __init__(self, text: str) -> None:
        if not (text.isascii() and text.isdigit() and len(text) <= SEQUENCE_DIGITS):
            raise InvalidPosition(
                f"not a sequence number: {text[:40]!r} (expected up to {SEQUENCE_DIGITS} digits)"
            )
        self.text: Final = text
        self._number: Final = int(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SequenceNumber) and self._number == other._number

    def __lt__(self, other: SequenceNumber) -> bool:
        return self._number < other._number

    def __hash__(self) -> int:
        return hash(self._number)

    def __int__(self) -> int:
        return self._number

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"SequenceNumber({self.text!r})"

    def __reduce__(self) -> tuple[type[SequenceNumber], tuple[str]]:
        return SequenceNumber, (self.text,)


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """The hash keys that a shard takes, both ends included. It never changes."""

    start: int
    end: int

    def __contains__(self, hash_key: int) -> bool:
        return self.start <= hash_key <= self.end


def hash_key_of(partition_key: str) -> int:
    """Return the hash key that Kinesis gives a partition key: its MD5, read as a number."""
    return int.from_bytes(hashlib.md5(partition_key.encode(), usedforsecurity=False).digest())


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard as the service lists it. Closed says nothing about how far anybody has read."""

    id: str
    parents: tuple[str, ...] = ()
    """None for a root, one after a split, two after a merge."""
    hash_range: HashRange | None = None
    """None for DynamoDB Streams, which does not publish it."""
    first: SequenceNumber | None = None
    """A lower bound for the numbers in it; no record need have it."""
    last: SequenceNumber | None = None
    """An upper bound that only a closed shard has; no record need have it."""

    @property
    def closed(self) -> bool:
        """True if the shard takes no more records."""
        return self.last is not None
