"""When a query that ends is done: everything that had arrived by a time of the service is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.lineage import State
from shardline.core.positions import ShardEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from shardline.core.planning.state import PlanState
    from shardline.core.planning.tips import Tip


_LISTING_LAG: Final = timedelta(seconds=10)
"""For so long a listing may lack shards that were there."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a query that ends must reach."""

    until: datetime
    shards: frozenset[str]
    """What is listed much later was born later, and holds nothing that counts."""
    wants_children: bool
    """Whether a shard that ended must have children in the listing: on Kinesis each one has. A
    listing that lacks them is stale, and they may hold records from before `until`."""

    @classmethod
    def at(cls, now: datetime, listed: Iterable[str], *, wants_children: bool) -> Target:
        """Return the target of a query that asks at the service's time `now`."""
        # The service tells whole seconds, rounded down.
        return cls(now + timedelta(seconds=1), frozenset(listed), wants_children)

    def joined(self, listed: Iterable[str], now: datetime) -> Target:
        """Return the target after another listing, of which the first may have lacked shards."""
        if now > self.until + _LISTING_LAG:
            return replace(self, wants_children=False)
        return replace(self, shards=self.shards | frozenset(listed))

    def is_reached(self, state: PlanState, tips: Mapping[str, Tip], *, once: bool) -> bool:
        """Return true if all is delivered that counts; `once`: if all that can be is planned.

        A single batch leaves shards that wait for their parents to the next run.
        """
        if self.wants_children and not once and self._lacks_children(state):
            return False
        standings = state.lineage.standings
        return all(
            _is_done(tips.get(shard_id), once=once)
            for shard_id in self.shards & standings.keys()
            if standings[shard_id].state in (State.WAITING, State.READABLE)
        )

    def _lacks_children(self, state: PlanState) -> bool:
        listed = [each.shard for each in state.lineage.standings.values() if each.shard is not None]
        parents = {parent for shard in listed for parent in shard.parents}
        ended = (shard.id for shard in listed if shard.id in state.drained)
        return any(shard_id in self.shards and shard_id not in parents for shard_id in ended)


def _is_done(tip: Tip | None, *, once: bool) -> bool:
    if tip is None:
        return once
    if isinstance(tip.reached.position, ShardEnd):
        return once or not tip.found
    return tip.at_tip and (once or not tip.found)
