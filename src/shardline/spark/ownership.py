"""Which shards this application may plan. One that reads a stream alone may plan all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from shardline.core.planning import Claim

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from shardline.core.offsets import Offset, Range


class Ownership(Protocol):
    """Who decides what may be planned, and who is told what was done."""

    def claims(self, readable: Collection[str]) -> Mapping[str, Claim]:
        """Return those of the readable shards that may be planned now, and from where."""

    def confirm(self, ranges: Mapping[str, Range]) -> Mapping[str, Range]:
        """Return those ranges of a planned batch that may still be read. Decided once a batch."""

    def acknowledge(self, committed: Offset) -> None:
        """Note that Spark has committed the batch that ends here."""

    def release(self) -> None:
        """Let go of everything: the query has stopped."""


class SoleOwner:
    """A single application: every shard is its own, and Spark's checkpoint is the truth."""

    def claims(self, readable: Collection[str]) -> Mapping[str, Claim]:
        """Claim every readable shard."""
        return dict.fromkeys(readable, Claim())

    def confirm(self, ranges: Mapping[str, Range]) -> Mapping[str, Range]:
        """Confirm every range: nobody else can have taken one."""
        return ranges

    def acknowledge(self, committed: Offset) -> None:
        """Do nothing: Spark has written it down."""

    def release(self) -> None:
        """Do nothing: nobody waits."""
