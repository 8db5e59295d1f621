"""Which shards have their turn in a batch that cannot hold everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Turns:
    """Orders shards: the one that had no turn for longest comes first."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._number = 0

    def choose(self, most_records: Mapping[str, int], left: int | None) -> list[str]:
        """Return the shards of a batch, each with so many records at most; `left` None: all.

        The first one is taken in any case: its own share is no more than a batch may hold.
        """
        chosen: list[str] = []
        for shard_id in sorted(most_records, key=lambda k: self._last.get(k, 0)):
            if left is not None:
                if most_records[shard_id] > left and chosen:
                    continue
                left -= most_records[shard_id]
            chosen.append(shard_id)
        return chosen

    def took(self, shard_ids: Iterable[str]) -> None:
        """Record that shards had their turn."""
        self._number += 1
        self._last.update(dict.fromkeys(shard_ids, self._number))
