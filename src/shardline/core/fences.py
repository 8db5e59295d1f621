"""The number that every delivery carries, so that a sink can refuse an older writer."""

from __future__ import annotations

from typing import NamedTuple


class Fence(NamedTuple):
    """Compares as a tuple and rises with every try to deliver: higher wins.

    A consumer's deliveries carry (epoch, delivery). Compare the epoch per shard and the whole
    fence per key: with several lanes, deliveries of different keys run side by side. A query's
    batches carry (batch, attempt) in the same two places.
    """

    epoch: int = 0
    """Rises whenever a shard's lease is taken."""
    delivery: int = 0
    """Rises with every try under that epoch."""
