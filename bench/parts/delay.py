"""Put to consumer at a trickle, at half load and at full load, and what it costs; 4 shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.workload.records import SHARD_RECORDS_PER_SECOND
from bench.workload.trial import trial

if TYPE_CHECKING:
    from bench.contenders import Contender

SHARDS: Final = 4
TRICKLE_PER_SECOND: Final = 5
SECONDS: Final = 5.0
QUICK_SECONDS: Final = 4.0
TRICKLE_WARM_SECONDS: Final = 1.0


def measure(contender: Contender, *, quick: bool = False) -> dict[str, Any]:
    """Return the delays, and how long the first record took."""
    seconds = QUICK_SECONDS if quick else SECONDS
    with trial(contender, SHARDS) as tried:
        first: float | None = round(tried.first_record_seconds, 2)
        warm = tried.first_record_warm_seconds
        return {
            "first_record_seconds": None if contender.slow_start else first,
            "first_record_warm_seconds": None if warm is None else round(warm, 2),
            "trickle": tried.load(TRICKLE_PER_SECOND, seconds, TRICKLE_WARM_SECONDS).as_json(),
            "half": tried.load(SHARD_RECORDS_PER_SECOND / 2, seconds).as_json(),
            "full": tried.load(SHARD_RECORDS_PER_SECOND, seconds).as_json(),
        }
