"""Cases by the hundred thousand: `make fuzz`, or `python -m tests.property.fuzz --cases 1000000`.

Each case is made from a seed, and seeds are fresh unless one is named. What fails is printed with
its seed: `python -m tests.property.fuzz decoders --first SEED --cases 1` runs it again.
"""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import importlib
import logging
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TARGETS: Final = {
    "decoders": "response bodies: the fast decoders, the simple ones, botocore and cbor2",
    "aggregation": "aggregated records: ours and AWS's own aggregator",
    "documents": "offsets, tokens, checkpoints and rows of lease tables, damaged",
    "requests": "requests to the embedded service",
}
_MODULES: Final = {
    "decoders": "decoder_cases",
    "aggregation": "aggregation_cases",
    "documents": "document_cases",
    "requests": "request_cases",
}
_PIECE: Final = 2_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--cases", type=int, default=100_000, help="of each target")
    parser.add_argument("--first", type=int, help="the first seed; a fresh one if it is left out")
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    first: int = random.SystemRandom().randrange(10**12) if chosen.first is None else chosen.first
    failed = 0
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for target in chosen.targets:
            began = time.monotonic()
            starts = range(first, first + chosen.cases, _PIECE)
            sizes = (min(_PIECE, first + chosen.cases - start) for start in starts)
            pieces = pool.map(_run, repeat(target), starts, sizes)
            found = [line for piece in pieces for line in piece]
            failed += len(found)
            print("\n".join(found[:10]), end="\n" if found else "")
            print(
                f"{target}: {chosen.cases:,} cases from seed {first} in "
                f"{time.monotonic() - began:.0f} s, {len(found)} failed ({TARGETS[target]})",
                flush=True,
            )
    return 1 if failed else 0


def _run(target: str, first: int, count: int) -> list[str]:
    """Run a piece in another process; return a line for each case that failed."""
    logging.disable(logging.CRITICAL)
    module = importlib.import_module(f"tests.property.{_MODULES[target]}")
    if target == "decoders":
        module.use_fast_ways_for_all_sizes(setattr)
    check: Callable[[int], None] = partial(module.check)
    failures = []
    for seed in range(first, first + count):
        try:
            check(seed)
        except Exception as error:
            failures.append(f"{target}, seed {seed}: {type(error).__name__}: {error!s:.600}")
    return failures


if __name__ == "__main__":
    sys.exit(main())
