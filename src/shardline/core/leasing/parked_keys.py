"""Parked keys: partition keys of a shard whose records go to the dead letters, one row for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

MOST_PARKED_KEYS: Final = 1_000
"""Of one shard. A shard with more is halted: its consumer fails on almost everything."""


@dataclass(frozen=True, slots=True)
class ParkedKey:
    """One parked key. The row's key is (app_name, stream_name, shard_id, key)."""

    app_name: str
    stream_name: str
    shard_id: str
    key: str
    letter_id: str
    """The key's last dead letter: it is unparked when redelivery has reached this one."""
    epoch: int
    """Under which the row was written. A lower one never replaces or deletes it."""


def inherited_keys(
    shard_id: str, parents: Iterable[str], epoch: int, rows: Iterable[ParkedKey]
) -> Iterator[ParkedKey]:
    """Return the rows that a child must have, from those of its parents that it lacks."""
    rows = tuple(rows)
    own = {row.key for row in rows if row.shard_id == shard_id}
    above = set(parents)
    for row in rows:
        if row.shard_id in above and row.key not in own:
            own.add(row.key)
            yield replace(row, shard_id=shard_id, epoch=epoch)
