"""How many full shards a contender follows with 95 of 100 records delivered within a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.workload.records import SHARD_RECORDS_PER_SECOND
from bench.workload.trial import Load, trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.contenders import Contender

FIRST: Final = 8
MOST: Final = 64
QUICK_MOST: Final = 8
P95_SECONDS: Final = 1.0
DELIVERED: Final = 0.99
LATE_SECONDS: Final = 0.5
SECONDS: Final = 7.0
QUICK_SECONDS: Final = 5.0


def followed(load: Load) -> bool:
    """Return true if a contender kept up with a load, which was written as it should be."""
    in_time = load.writer_late_seconds <= LATE_SECONDS  # else the shards were not full
    return in_time and load.delivered >= DELIVERED and load.p95_seconds < P95_SECONDS


def search(follows: Callable[[int], bool], first: int, most: int) -> int:
    """Return the largest number that is followed: double or halve, then bisect to a quarter."""
    good, bad, number = 0, most + 1, first
    while 1 <= number <= most:
        if follows(number):
            good = number
            number *= 2
        else:
            bad = number
            number //= 2
        if good and bad <= most:
            break
    while good and bad <= most and bad - good > max(1, good // 4):
        middle = (good + bad) // 2
        if follows(middle):
            good = middle
        else:
            bad = middle
    return good


def measure(
    contender: Contender, *, quick: bool = False, first: int = FIRST, most: int = MOST
) -> dict[str, Any]:
    """Search; return the number with every load that was tried."""
    tried: dict[int, Load] = {}

    def follows(shards: int) -> bool:
        with trial(contender, shards) as started:
            seconds = QUICK_SECONDS if quick else SECONDS
            tried[shards] = started.load(SHARD_RECORDS_PER_SECOND, seconds)
        return followed(tried[shards])

    most = min(most, QUICK_MOST) if quick else most
    found = search(follows, min(first, most), most)
    return {
        "shards": found,
        "at_least": found == most,
        "limited_by_writer": any(
            load.writer_late_seconds > LATE_SECONDS for n, load in tried.items() if n > found
        ),
        "loads": [tried[shards].as_json() for shards in sorted(tried)],
    }
