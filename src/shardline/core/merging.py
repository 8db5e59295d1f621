"""The total order across shards: which of the records at hand come next, and in which order.

The rule: of all records whose predecessors have been delivered, the one created earliest comes
next; among equals, the one whose shard has the lower clock. The predecessors of a record are
the ones before it in its shard and all of its shard's ancestors, so lineage and in-shard order
outrank timestamps. A shard's clock is a whole number that it gets when it is first seen, each
higher than the last, so that nothing about pages or about the calls made can change the order.

The rule looks at the first undelivered record of each shard and at nothing else. So the order
does not depend on how the records were cut into pages, and what is left after any prefix is
ordered in the same way by whoever goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Backlog(NamedTuple):
    """The undelivered records of one shard, all of whose ancestors have been delivered."""

    clock: int
    times: NDArray[np.int64]
    """The creation times of its records, as `rising` gives them."""
    holds: bool
    """Whether more may follow that is older than what others have: pass its last record, and the
    order may be lost. False for a shard at its tip, and for one that was waited for long enough."""


class Merged(NamedTuple):
    """What may be delivered now."""

    counts: list[int]
    """How many records of each backlog."""
    order: NDArray[np.intp] | None
    """Where each one stands among the counted records, laid end to end; None if as they lie."""


def rising(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Raise each time to the highest before it.

    A record that is older than its predecessor has to wait for it, and once that is delivered
    nothing can be in front: so they sort alike, and a shard's times can be searched.
    """
    raised: NDArray[np.int64] = np.maximum.accumulate(times)
    return raised


def merge(backlogs: Sequence[Backlog]) -> Merged:
    """Order as many records as can be ordered without knowing what follows in shards that hold."""
    counts = [len(backlog.times) for backlog in backlogs]
    holding = [backlog for backlog in backlogs if backlog.holds]
    if any(not len(backlog.times) for backlog in holding):
        return Merged([0] * len(backlogs), None)
    if holding:
        last_time, last_clock = min((b.times[-1], b.clock) for b in holding)
        counts = [
            int(np.searchsorted(b.times, last_time, "right" if b.clock <= last_clock else "left"))
            for b in backlogs
        ]
    if sum(count > 0 for count in counts) < 2:
        return Merged(counts, None)
    times = np.concatenate([b.times[:count] for b, count in zip(backlogs, counts, strict=True)])
    clocks = np.repeat([b.clock for b in backlogs], counts)
    # Stable, so that each shard's records stay in their order.
    return Merged(counts, np.lexsort((clocks, times)))
