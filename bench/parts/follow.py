"""How many full shards a contender follows with 95 of 100 records delivered within a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.workload.records import SHARD_RECORDS_PER_SECOND
from bench.workload.trial import Load, trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.contenders import Contender

GRID: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 88, 96)
"""The numbers of shards that are tried."""
TRIES: Final = 5
QUICK_MOST: Final = 8
P95_SECONDS: Final = 1.0
DELIVERED: Final = 0.99
WRITTEN: Final = 0.98
"""A load of which less was written shows a limit of writer and service, and none of the reader."""
SECONDS: Final = 6.0
QUICK_SECONDS: Final = 5.0


def kept_up(load: Load) -> bool:
    """Return true if a contender delivered in time what was written."""
    return load.delivered >= DELIVERED and load.p95_seconds < P95_SECONDS


def followed(load: Load) -> bool:
    """Return true if a contender kept up with a load, which was written as it should be."""
    return load.written >= WRITTEN and kept_up(load)


def search(
    follows: Callable[[int], bool], first: int, most: int = GRID[-1], tries: int = TRIES
) -> int:
    """Return the largest number of the grid that is followed, with few tries if `first` is near.

    Steps from the first number double until the limit lies between two tries, then halve. After
    the last try, the largest one that was followed is the answer.
    """
    grid = [number for number in GRID if number <= most]
    at = max(n for n, number in enumerate(grid) if number <= max(1, first))
    good, bad, step = -1, len(grid), 1
    while bad - good > 1 and tries > 0:
        tries -= 1
        if follows(grid[at]):
            good = at
        else:
            bad = at
        if good >= 0 and bad < len(grid):
            at = (good + bad) // 2
        else:
            at = min(good + step, bad - 1) if good >= 0 else max(bad - step, 0)
            step *= 2
    return grid[good] if good >= 0 else 0


def measure(contender: Contender, *, quick: bool = False) -> dict[str, Any]:
    """Search; return the number with every load that was tried."""
    tried: dict[int, Load] = {}
    errors: dict[int, str] = {}
    most = QUICK_MOST if quick else GRID[-1]
    seconds = QUICK_SECONDS if quick else SECONDS

    def follows_once(shards: int) -> bool:
        try:
            with trial(contender, shards) as started:
                tried[shards] = started.load(SHARD_RECORDS_PER_SECOND, seconds)
        except (RuntimeError, TimeoutError) as error:
            errors[shards] = str(error)
            return False
        return followed(tried[shards])

    def follows(shards: int) -> bool:
        if follows_once(shards):
            return True
        load = tried.get(shards)  # a hiccup of the writer is no limit of the reader
        again = load is not None and load.written < WRITTEN
        return again and shards <= contender.expected_shards and follows_once(shards)

    found = search(follows, contender.expected_shards, most)
    target = contender.target_shards
    if target is not None and target not in tried and target <= most:
        follows_once(target)
    if not tried:
        raise RuntimeError(next(iter(errors.values())))
    end = min((n for n in (*tried, *errors) if n > found), default=None)
    return {
        "shards": found,
        "not_followed": end,
        "at_least": found == most,
        "limited_by_writer": end in tried and kept_up(tried[end]),
        "loads": [tried[shards].as_json() for shards in sorted(tried)],
        "errors": {str(shards): error for shards, error in errors.items()},
    }
