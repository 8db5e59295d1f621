"""Which shards this application may plan, from where, and who is told what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from shardline.core import planning
from shardline.core.planning import Claim
from shardline.core.positions import After

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime, timedelta

    from shardline.core.offsets import Offset, Range
    from shardline.core.planning import Ground
    from shardline.core.shards import Shard


class Ownership(Protocol):
    """Who decides what may be planned, and who is told what was done."""

    def settle(
        self,
        committed: Offset,
        listed: Collection[Shard],
        *,
        created_at: datetime,
        now: datetime,
        retention: timedelta,
        gone: AbstractSet[str],
    ) -> Ground:
        """Tell where things stand now that this batch is committed."""

    def changed(self) -> bool:
        """Say whether a plan would find other shards than the last one did."""

    def claims(self, readable: Collection[str]) -> Mapping[str, Claim]:
        """Return those of the readable shards that may be planned now, and from where."""

    def confirm(self, planned: Offset) -> Mapping[str, Range]:
        """Return those ranges of a planned batch that may still be read. Decided once a batch."""

    def begins(self, shard_id: str, item: Range) -> bool:
        """Say whether a confirmed range is the first of its shard under its epoch."""

    def acknowledge(self, committed: Offset) -> None:
        """Note that Spark has committed the batch that ends here."""

    def release(self) -> bool:
        """Let go of everything: the query has stopped, or is about to. False: ask again."""


class SoleOwner:
    """A single application: every shard is its own, and Spark's checkpoint is the truth."""

    def settle(
        self,
        committed: Offset,
        listed: Collection[Shard],
        *,
        created_at: datetime,
        now: datetime,
        retention: timedelta,
        gone: AbstractSet[str],
    ) -> Ground:
        """Go on where Spark's own offset ends."""
        return planning.settle(
            committed, listed, created_at=created_at, now=now, retention=retention, gone=gone
        )

    def changed(self) -> bool:
        """Say no: only a listing tells of other shards."""
        return False

    def claims(self, readable: Collection[str]) -> Mapping[str, Claim]:
        """Claim every readable shard."""
        return dict.fromkeys(readable, Claim())

    def confirm(self, planned: Offset) -> Mapping[str, Range]:
        """Confirm every range: nobody else can have taken one."""
        return {shard_id: item for shard_id, item in planned.ranges.items() if not item.empty}

    def begins(self, shard_id: str, item: Range) -> bool:  # noqa: ARG002 - the port's names
        """Say so at the beginning of each shard."""
        return not isinstance(item.after, After)

    def acknowledge(self, committed: Offset) -> None:
        """Do nothing: Spark has written it down."""

    def release(self) -> bool:
        """Do nothing: nobody waits."""
        return True
