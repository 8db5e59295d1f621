"""`python -m bench.soak`: two workers for hours, and whether anything grows.

    python -m bench.soak --hours 2
    python -m bench.soak --minutes 3
    python -m bench.soak --report .bench/soak      (of a run that has ended)

SIGTERM or Ctrl-C ends a run early, with its report.

A strict embedded service, a writer at a modest rate, and two workers (`shardline run --engine
process`), each in processes of their own. The stream is resharded every few minutes, the service's
clock moves on by two hours every minute, so that days of retention pass, and now and then half of
all calls are throttled for half a minute. What was delivered is judged by the promise checker.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Final

from bench.soak import report
from bench.soak.run import Soak

DEFAULT_FOLDER: Final = Path(".bench/soak")


def main() -> int:
    """Run, or report; return 1 if a promise was broken or something grew."""
    parser = argparse.ArgumentParser(
        "python -m bench.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--minutes", type=float, help="instead of hours")
    parser.add_argument("--rate", type=int, default=50, help="records a second")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="only report on a run")
    asked = parser.parse_args()
    if asked.report is None:
        seconds = 3600 * asked.hours if asked.minutes is None else 60 * asked.minutes
        soak = Soak(asked.folder, seconds, asked.rate)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: soak.end_early())
        soak.run()
    return report.write(asked.report or asked.folder)


if __name__ == "__main__":
    sys.exit(main())
