"""Streams of tables: shards that split, roll over, close and expire."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from shardline.core.shards import HASH_SPACE_END, HashRange, hash_key_of
from shardline.local.dynamodb_streams.changes import (
    StoredChange,
    ViewType,
    sequence_number,
    sequence_text,
    store,
)
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.dynamodb_streams.changes import Change, Item

RETENTION_MS: Final = 24 * 3600 * 1000


@dataclass(slots=True)
class StoredShard:
    """One shard. Its hash range is internal: no listing shows it."""

    id: str
    parent: str | None
    hash_range: HashRange
    first: int
    """A bound: no record has this number."""
    opened_by: int
    """The number of the split or roll that opened the shard; 0 for root shards."""
    last: int | None = None
    """A bound that only a closed shard has; no record has this number."""
    closed_ms: int | None = None
    closed_by: int | None = None
    """The number of the split or roll that closed the shard."""
    changes: list[StoredChange] = field(default_factory=list)
    trimmed: int = 0
    """The number of the newest change that was trimmed away, or 0."""
    reads: int = 0
    """The number of pages that were read so far."""

    def trim(self, now_ms: int) -> None:
        """Remove the changes that are older than the retention period."""
        gone = 0
        for change in self.changes:
            if change.put_ms + RETENTION_MS > now_ms:
                break
            gone += 1
        if gone:
            self.trimmed = self.changes[gone - 1].number
            del self.changes[:gone]

    def expired(self, now_ms: int) -> bool:
        """Return true if the shard is closed and all its changes are past the retention period."""
        return self.closed_ms is not None and self.closed_ms + RETENTION_MS <= now_ms

    def index_of(self, number: int) -> int:
        """Return the index of the first change with this number or a higher one."""
        return bisect_left(self.changes, number, key=lambda change: change.number)

    @property
    def newest(self) -> int:
        """The highest number used in this shard."""
        return self.changes[-1].number if self.changes else max(self.first, self.trimmed)


class StoredStream:
    """The stream of one table, with its shards in order of creation."""

    def __init__(
        self,
        table: str,
        view_type: ViewType,
        key_names: list[str],
        *,
        shards: int,
        arn: str,
        label: str,
        now_ms: int,
    ) -> None:
        self.table: Final = table
        self.view_type: Final[ViewType] = view_type
        self.key_names: Final = key_names
        self.arn: Final = arn
        self.label: Final = label
        self.created_ms: Final = now_ms
        self.disabled_ms: int | None = None
        self.shards: Final[dict[str, StoredShard]] = {}
        self.reshards = 0
        """The number of splits and rolls so far."""
        self._number = 0
        self._shard_ms = 0
        bounds = [(HASH_SPACE_END + 1) * index // shards for index in range(shards + 1)]
        for start, end in pairwise(bounds):
            self._open(None, HashRange(start, end - 1), now_ms)

    def expired(self, now_ms: int) -> bool:
        """Return true if the stream is disabled and all its changes have expired."""
        return self.disabled_ms is not None and self.disabled_ms + RETENTION_MS <= now_ms

    def shard(self, shard_id: str, now_ms: int) -> StoredShard:
        """Return a shard after trimming it, or raise `Refusal`."""
        shard = self.shards.get(shard_id)
        if shard is None or shard.expired(now_ms):
            raise Refusal(
                "ResourceNotFoundException",
                f"Requested resource not found: Shard: {shard_id} in Stream: {self.arn} not found",
            )
        shard.trim(now_ms)
        return shard

    def listed(self, now_ms: int) -> list[StoredShard]:
        """Return the shards that have not expired, in order of creation."""
        return [shard for shard in self.shards.values() if not shard.expired(now_ms)]

    def split(self, shard_id: str, now_ms: int) -> list[str]:
        """Close a shard and open two children, each with half of its hash keys."""
        parent = self._close(shard_id, now_ms)
        start, end = parent.hash_range.start, parent.hash_range.end
        middle = (start + end) // 2
        halves = [HashRange(start, middle), HashRange(middle + 1, end)]
        return [self._open(parent.id, half, now_ms) for half in halves]

    def roll(self, shard_id: str, now_ms: int) -> list[str]:
        """Close a shard and open one child, as DynamoDB does every four hours."""
        parent = self._close(shard_id, now_ms)
        return [self._open(parent.id, parent.hash_range, now_ms)]

    def disable(self, now_ms: int) -> None:
        """Close every shard. Its changes stay readable until they are trimmed."""
        for shard in self.shards.values():
            if shard.last is None:
                self._close(shard.id, now_ms)
        self.disabled_ms = now_ms

    def shard_for(self, keys: Item) -> StoredShard:
        """Return the open shard of a hash key."""
        if sorted(keys) != sorted(self.key_names):
            raise Refusal(
                "ValidationException",
                f"The keys of {self.table} are {self.key_names}, not {sorted(keys)}",
            )
        hash_key = hash_key_of(msgspec.json.encode(keys[self.key_names[0]]).decode())
        for shard in self.shards.values():
            if shard.last is None and hash_key in shard.hash_range:
                return shard
        raise Refusal("ValidationException", f"The stream {self.arn} is disabled")

    def put(self, change: Change, now_ms: int) -> tuple[str, str]:
        """Store one change and return its shard and sequence number."""
        shard = self.shard_for(change.keys)
        if change.shard is not None:
            shard = self.shard(change.shard, now_ms)
        if shard.last is not None:
            raise Refusal("ValidationException", f"Shard {shard.id} is closed")
        number = self._number + 1
        if change.sequence_number is not None:
            number = sequence_number(change.sequence_number)
        if number <= shard.newest:
            raise Refusal(
                "ValidationException",
                f"Sequence numbers rise in a shard: {number} is not above {shard.newest}",
            )
        stored = store(change, number, self.arn, self.view_type, now_ms)
        self._number = max(self._number, number)
        shard.changes.append(stored)
        return shard.id, sequence_text(number)

    def _open(self, parent: str | None, hash_range: HashRange, now_ms: int) -> str:
        # Ids sort by creation, also for two shards of one millisecond: paging relies on it.
        self._shard_ms = max(now_ms, self._shard_ms + 1)
        digest = hashlib.sha256(f"{self.arn}{self._shard_ms}".encode()).hexdigest()[:8]
        shard_id = f"shardId-{self._shard_ms:020d}-{digest}"
        self._number += 1
        self.shards[shard_id] = StoredShard(
            shard_id, parent, hash_range, self._number, self.reshards
        )
        return shard_id

    def _close(self, shard_id: str, now_ms: int) -> StoredShard:
        shard = self.shard(shard_id, now_ms)
        if shard.last is not None:
            raise Refusal("ValidationException", f"Shard {shard_id} is closed already")
        self.reshards += 1
        self._number += 1
        shard.last = self._number
        shard.closed_ms = now_ms
        shard.closed_by = self.reshards
        return shard
