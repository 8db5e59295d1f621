"""When a query that ends is done: everything that had arrived by a time of the service is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from shardline.core.lineage import State
from shardline.core.positions import ShardEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from shardline.core.planning.state import PlanState
    from shardline.core.planning.tips import Tip


@dataclass(frozen=True, slots=True)
class Target:
    """What a query that ends must reach."""

    until: datetime
    shards: frozenset[str]
    """What is listed later was born later, and holds nothing that counts."""

    @classmethod
    def at(cls, now: datetime, listed: Iterable[str]) -> Target:
        """Return the target of a query that asks at the service's time `now`."""
        # The service tells whole seconds, rounded down.
        return cls(now + timedelta(seconds=1), frozenset(listed))

    def is_reached(self, state: PlanState, tips: Mapping[str, Tip], *, once: bool) -> bool:
        """Return true if all is delivered that counts; `once`: if all that can be is planned.

        A single batch leaves shards that wait for their parents to the next run.
        """
        standings = state.lineage.standings
        return all(
            _is_done(tips.get(shard_id), once=once)
            for shard_id in self.shards & standings.keys()
            if standings[shard_id].state in (State.WAITING, State.READABLE)
        )


def _is_done(tip: Tip | None, *, once: bool) -> bool:
    if tip is None:
        return once
    if isinstance(tip.reached.position, ShardEnd):
        return once or not tip.found
    return tip.at_tip and (once or not tip.found)
