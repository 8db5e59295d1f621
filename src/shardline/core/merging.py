"""The total order across shards: which of the records that were read come next, in which order.

The rule: of all records whose predecessors have been delivered, the one created earliest comes
next; among equals, the one whose shard has the lower clock. The predecessors of a record are
the ones before it in its shard and all of its shard's ancestors, so lineage and in-shard order
outrank timestamps. A shard's clock is a whole number that it gets when it is first listed, each
higher than the last, so that neither pages nor calls can change the order.

The rule uses the first undelivered record of each shard and nothing else. So the order does not
depend on how the records were cut into pages, and another reader that continues after any prefix
gives the rest in the same order.
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
    """True if records may follow that are older than those of other shards, so that nothing after
    its last record may be delivered. False at the tip, and once it was waited for long enough."""


class Merged(NamedTuple):
    """The records that may be delivered now."""

    counts: list[int]
    """How many records of each backlog."""
    order: NDArray[np.intp] | None
    """The order of the counted records of all backlogs, one after the other; None if unchanged."""


def rising(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each time raised to the highest before it.

    A record that is older than its predecessor waits for it, and follows it at once: so the two
    sort alike, and a shard's times can be searched.
    """
    raised: NDArray[np.int64] = np.maximum.accumulate(times)
    return raised


def merge(backlogs: Sequence[Backlog]) -> Merged:
    """Order the records that can be ordered without those that follow in shards that hold."""
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
