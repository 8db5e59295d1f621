"""`python -m bench`: what a user feels, limits on, beside what people use instead.

`python -m bench follow catch_up --only boto3 --only consumer-process` measures some pieces. Each
piece is merged into bench/results/results.json, from which the tables and the picture are made.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from typing import Final, NamedTuple

from bench import picture, report, results_file
from bench.contenders import CONTENDERS, kcl
from bench.piece import NOBODY, run_piece


class Part(NamedTuple):
    """What a part is about, and how long one piece of it may take."""

    about: str
    limit_seconds: float
    compared: bool = True
    """True if it is measured with each contender."""
    shared_only: bool = False
    """True if it needs contenders whose workers share a stream."""
    pushed: bool = False
    """True if it is also measured with enhanced fan-out."""
    in_quick: bool = True


PARTS: Final = {
    "delay": Part("put to consumer, the first record, CPU and memory", 300, pushed=True),
    "follow": Part("full shards followed", 600, pushed=True, in_quick=False),
    "catch_up": Part("share of the quota in catching up", 400, in_quick=False),
    "failover": Part("kill -9, deploy, reshard storm", 400, shared_only=True, in_quick=False),
    "fan_out": Part("two apps on full shards", 300, compared=False, in_quick=False),
    "cost": Part("calls and money per shard and hour", 400, compared=False),
    "leasing": Part("many shards on many workers", 300, compared=False, in_quick=False),
    "wire": Part("a response body becomes Arrow columns", 300, compared=False),
    "puts": Part("records written, beside loops of boto3", 300, compared=False, in_quick=False),
    "stream": Part("next(stream) and typed changes", 300, compared=False, in_quick=False),
    "memory": Part("memory over ten million records", 300, compared=False, in_quick=False),
}
QUICK_CONTENDERS: Final = ("consumer-process", "consumer-spark", "source", "boto3")


def main() -> int:
    """Measure what is asked for; return 1 if a piece failed."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--only", action="append", choices=CONTENDERS, metavar="CONTENDER")
    parser.add_argument("--quick", action="store_true", help="in three minutes, results not kept")
    parser.add_argument("--report", action="store_true", help="only make tables and picture anew")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no piece after that")
    asked = parser.parse_args()
    unknown = [name for name in asked.parts if name not in PARTS]
    if unknown:
        parser.error(f"no such part: {unknown[0]}")
    if asked.report:
        write_report(results_file.load())
        return 0
    names = asked.parts or [n for n, p in PARTS.items() if p.in_quick or not asked.quick]
    only = asked.only or list(QUICK_CONTENDERS if asked.quick else CONTENDERS)
    return _measure(names, only, quick=asked.quick, minutes=asked.minutes)


def _measure(names: list[str], only: list[str], *, quick: bool, minutes: float) -> int:
    failed, results = False, results_file.load()
    file = results_file.FOLDER / "quick.json" if quick else results_file.FILE
    deadline = time.monotonic() + 60 * minutes
    with ExitStack() as stack:
        for name in names:
            part = PARTS[name]
            for contender in _contenders(part, only):
                if time.monotonic() > deadline:
                    print(f"{name} {contender}: no time left", flush=True)
                    continue
                if contender.startswith("kcl"):
                    _provide_dynamodb(stack)
                piece = run_piece(name, contender, quick=quick, limit_seconds=part.limit_seconds)
                results = results_file.merge(name, contender, piece.data, piece.error, file)
                failed = failed or piece.error is not None
                print(f"{name} {contender} ({piece.seconds:.0f} s)", flush=True)
                print(f"  {piece.error or report.line_of(name, piece.data)}", flush=True)
    print(f"\n{report.headline(results)}")
    if not quick:
        write_report(results)
    print(f"Written: {file}")
    return int(failed)


def _contenders(part: Part, only: list[str]) -> list[str]:
    if not part.compared:
        return [NOBODY]
    return [
        name
        for name in only
        if (CONTENDERS[name].shared or not part.shared_only)
        and (part.pushed or not CONTENDERS[name].pushed)
    ]


def _provide_dynamodb(stack: ExitStack) -> None:
    """Start DynamoDB Local for the leases of the Kinesis Client Library, once."""
    if kcl.DYNAMODB_VARIABLE not in os.environ:
        from tests.servers.aws import dynamodb_local

        endpoint = stack.enter_context(dynamodb_local())
        os.environ[kcl.DYNAMODB_VARIABLE] = endpoint.endpoint_url


def write_report(results: results_file.Results) -> None:
    """Write the tables into the documents, and the picture."""
    report.write(results)
    (results_file.FOLDER / "results.svg").write_text(picture.draw(results))


if __name__ == "__main__":
    sys.exit(main())
