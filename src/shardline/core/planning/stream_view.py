"""What a planner knows of the stream as a whole, and when to ask again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.lineage import descends, uncovered
from shardline.errors import ShardlineError

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime

    from shardline.core.offsets import Offset
    from shardline.core.planning.events import Described
    from shardline.core.shards import Shard

_LIST_SECONDS: Final = 5.0
_LIST_AGAIN_SECONDS: Final = 0.5
_DESCRIBE_SECONDS: Final = 30.0


@dataclass
class StreamView:
    """The last listing and description of a stream."""

    listed: dict[str, Shard] = field(default_factory=dict)
    name: str = ""
    arn: str = ""
    created_at: datetime | None = None
    retention: timedelta = timedelta(hours=24)
    gone: set[str] = field(default_factory=set)
    """Shards that the service, asked for each, does not have."""
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of the listed shards, and of those that an earlier listing showed and that are in use."""
    list_at: float = 0.0
    describe_at: float = 0.0

    def take_listing(
        self, shards: tuple[Shard, ...], now: float, in_use: Container[str] = ()
    ) -> bool:
        """Take in a listing; return false if it cannot be true."""
        if not shards and self.listed:
            self.list_at = now + _LIST_AGAIN_SECONDS  # no stream loses all its shards at once
            return False
        self.listed = {shard.id: shard for shard in shards}
        self.parents = {k: v for k, v in self.parents.items() if k in in_use}
        self.parents.update((shard.id, shard.parents) for shard in shards)
        again = not self.whole
        self.list_at = now + (_LIST_AGAIN_SECONDS if again else _LIST_SECONDS)
        return True

    def take_description(self, described: Described, now: float) -> None:
        """Take in a description."""
        self.name = described.name
        self.arn = described.arn
        self.created_at = described.created_at
        self.retention = described.retention
        self.describe_at = now + _DESCRIBE_SECONDS

    def list_soon(self, now: float) -> None:
        """Have the shards listed again soon, without a storm of listings."""
        self.list_at = min(self.list_at, now + _LIST_AGAIN_SECONDS)

    def predates(self, shard_id: str) -> bool:
        """Return true if the listing may be older than a shard that it lacks."""
        return not self.whole or descends(shard_id, self.listed, lambda i: self.parents.get(i, ()))

    def is_closed(self, shard_id: str) -> bool:
        """Return true if the listing shows a shard closed."""
        shard = self.listed.get(shard_id)
        return shard is not None and shard.closed

    @property
    def whole(self) -> bool:
        """Return true if every hash key belongs to a listed shard."""
        return bool(self.listed) and not uncovered(self.listed.values())

    def mismatch(self, committed: Offset) -> ShardlineError | None:
        """Return the error for an offset of another stream; None if it is of this one."""
        if committed.created_at is None:
            return None
        if committed.stream not in (None, self.arn):
            return ShardlineError(
                f"the checkpoint or token is of {committed.stream}, and {self.arn} is read: name "
                "the stream that it is of, or start with a new checkpointLocation"
            )
        if committed.created_at != self.created_at:
            return ShardlineError(
                f"{self.name} was deleted and made again: the checkpoint or token is of the stream "
                f"of {committed.created_at.isoformat()}, this one is of {self.created_at}. Start "
                "with a new checkpointLocation"
            )
        return None
