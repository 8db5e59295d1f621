"""Where the time of a read goes, as shares: `python -m bench.where`.

Shares of one run, by Python's own profiler; the work is done by few calls on whole pages, so that
the profiler itself hardly shows.
"""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.canned import Stock, canned
from bench.wire import kinesis_body, kinesis_cbor_body
from shardline.core.positions import TRIM_HORIZON
from shardline.services.access import Access
from shardline.services.connection import connect
from shardline.services.cursor import ShardCursor
from shardline.services.wire.kinesis import decode_kinesis

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS: Final = 40
SHOWN: Final = 12
LEAST_SHARE: Final = 0.02


def shares(action: Callable[[], object]) -> list[tuple[float, str]]:
    """Return the functions in which an action spends its time, each without those it calls."""
    profiler = cProfile.Profile()
    profiler.runcall(action)
    stats = pstats.Stats(profiler)
    total = stats.total_tt  # type: ignore[attr-defined]
    found = [
        (own / total, f"{function} ({Path(file).name})" if line else function)
        for (file, line, function), (_, _, own, _, _) in stats.stats.items()  # type: ignore[attr-defined]
    ]
    return [each for each in sorted(found, reverse=True)[:SHOWN] if each[0] >= LEAST_SHARE]


def main() -> None:
    """Print the shares of decoding, and of reading a whole stream."""
    for size in (100, 1_000):
        for wire, body in (
            ("JSON", kinesis_body(10_000, size)),
            ("CBOR", kinesis_cbor_body(10_000, size)),
        ):
            decode_kinesis(body)
            _print(f"decode {wire}, 10,000 × {size:,} B", lambda b=body: _repeat(b))  # type: ignore[misc]
    with canned([Stock("where", 4, 80_000, 1_000)]) as server:
        for wire in ("json", "cbor"):
            address = "kinesis://where"
            service = connect(address, Access(endpoint_url=server.endpoint_url), wire=wire)

            def read(service: object = service) -> None:
                for shard in service.list_shards():  # type: ignore[attr-defined]
                    cursor, behind = ShardCursor(service, shard.id, TRIM_HORIZON), 1  # type: ignore[arg-type]
                    while behind:
                        behind = cursor.read(10_000).behind_ms or 0

            read()
            _print(f"read a stream of 1,000 B records in {wire.upper()}, waiting included", read)


def _repeat(body: bytes) -> None:
    for _ in range(REPEATS):
        decode_kinesis(body)


def _print(title: str, action: Callable[[], object]) -> None:
    print(f"\n{title}")
    for share, function in shares(action):
        print(f"  {share:5.0%}  {function}")


if __name__ == "__main__":
    main()
