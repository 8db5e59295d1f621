"""What the processes of a query on the driver count, in small files that the command reads.

Spark gives a Python source and a Python sink no way to report figures, and both live in processes
of their own. They share a folder with whoever started the query.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shardline.core.positions import SHARD_END

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardline.core.offsets import Offset

LEASES: Final = "leases"
LAGS: Final = "lags"
DELIVERIES: Final = "deliveries"
_LAG_SECONDS: Final = 1.0


def write_tally(folder: Path, name: str, values: Mapping[str, int]) -> None:
    """Replace a tally in one step, so that a reader sees it whole. One writer for each name."""
    path = _path(folder, name)
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(json.dumps(dict(values)), encoding="utf-8")
        fresh.replace(path)
    except FileNotFoundError:
        pass  # the folder goes when the query has been stopped: nobody reads it any more


def add_to_tally(folder: Path, name: str, more: Mapping[str, int]) -> None:
    """Add to the values of a tally."""
    before = read_tally(folder, name)
    names = before.keys() | more.keys()
    write_tally(folder, name, {n: before.get(n, 0) + more.get(n, 0) for n in sorted(names)})


def read_tally(folder: Path, name: str) -> dict[str, int]:
    """Read a tally; empty if there is none yet."""
    try:
        values: dict[str, int] = json.loads(_path(folder, name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return values


def age_of_tally(folder: Path, name: str) -> float:
    """Return how many seconds ago a tally was written; 0 if there is none yet."""
    try:
        return max(0.0, time.time() - _path(folder, name).stat().st_mtime)
    except FileNotFoundError:
        return 0.0


class LagTally:
    """Tells, about once a second, how many milliseconds each shard of a plan may be behind."""

    def __init__(
        self,
        folder: Path,
        monotonic: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._folder = folder
        self._monotonic = monotonic
        self._today = today
        self._next_at = 0.0

    def tell(self, planned: Offset) -> None:
        """Take in a plan, whether or not it is worth a batch."""
        if self._monotonic() < self._next_at:
            return
        self._next_at = self._monotonic() + _LAG_SECONDS
        now = self._today()
        lags = {
            shard_id: max(0, (now - item.as_of) // timedelta(milliseconds=1))
            for shard_id, item in planned.ranges.items()
            if item.as_of is not None and item.upto != SHARD_END
        }
        write_tally(self._folder, LAGS, lags)


def _path(folder: Path, name: str) -> Path:
    return Path(folder) / f"{name}.json"
