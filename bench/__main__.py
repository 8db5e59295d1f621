"""`python -m bench`: what a user feels, limits on, beside what people use instead.

`python -m bench follow catch_up --only boto3 --only consumer-process` measures some pieces. Each
piece is merged into bench/results/results.json, from which the tables and the picture are made.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from bench import picture, report, results_file, spread
from bench.contenders import CONTENDERS, INSTALLED, kcl
from bench.parts import catch_up
from bench.piece import NOBODY, Piece, end_all, run_piece


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
    beside: bool = False
    """True if its pieces mostly wait, or count: in a whole run they run side by side."""
    waits: bool = False
    """True if its one piece is limited by a shard's quota, and not by the machine."""


PARTS: Final = {
    "delay": Part("put to consumer, the first record, CPU and memory", 200, pushed=True),
    "follow": Part("full shards followed", 400, pushed=True, in_quick=False),
    "catch_up": Part("share of the quota in catching up", 400, in_quick=False),
    "failover": Part(
        "kill -9, deploy, reshard storm", 600, shared_only=True, in_quick=False, beside=True
    ),
    "cost": Part("calls and money per shard and hour", 400, compared=False, beside=True),
    "leasing": Part(
        "many shards on many workers", 400, compared=False, in_quick=False, beside=True
    ),
    "memory": Part(
        "memory over four million records",
        400,
        compared=False,
        in_quick=False,
        beside=True,
        waits=True,
    ),
    "wire": Part("a response body becomes Arrow columns", 300, compared=False),
    "spark_batch": Part("Spark's own limit", 120, compared=False, in_quick=False),
    "stream": Part("next(stream) and typed changes", 300, compared=False, in_quick=False),
    "fan_out": Part("two apps on full shards", 300, compared=False, in_quick=False),
    "puts": Part("records written, beside loops of boto3", 300, compared=False, in_quick=False),
}
QUICK_CONTENDERS: Final = ("consumer-process", "consumer-spark", "source", "boto3")
NICE: Final = 19
"""Of pieces that only count, beside others."""


class Job(NamedTuple):
    """A piece to measure."""

    part: str
    contender: str

    @property
    def headline(self) -> bool:
        """Whether it is measured even when the time is over."""
        return self.contender != NOBODY and CONTENDERS[self.contender].main

    @property
    def lane(self) -> str:
        """Pieces of one lane run one after the other, lanes side by side."""
        if self.contender == NOBODY:
            return "waiting" if PARTS[self.part].waits else "counted"
        return "ours" if CONTENDERS[self.contender].ours else self.contender


def main() -> int:
    """Measure what is asked for; return 1 if a piece failed."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--only", action="append", choices=CONTENDERS, metavar="CONTENDER")
    parser.add_argument("--quick", action="store_true", help="in three minutes, results not kept")
    parser.add_argument("--install", action="store_true", help="only install the contenders")
    parser.add_argument("--report", action="store_true", help="only make tables and picture anew")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="JSON", help="two results")
    parser.add_argument(
        "--minutes", type=float, default=29.3, help="after that only the headline is measured"
    )
    asked = parser.parse_args()
    unknown = [name for name in asked.parts if name not in PARTS]
    if unknown:
        parser.error(f"no such part: {unknown[0]}")
    if asked.install:
        return install()
    if asked.compare:
        print(spread.compared(*(spread.figures(results_file.load(file)) for file in asked.compare)))
        return 0
    if asked.report:
        write_report(results_file.load())
        return 0
    names = asked.parts or [n for n, p in PARTS.items() if p.in_quick or not asked.quick]
    only = asked.only or list(QUICK_CONTENDERS if asked.quick else CONTENDERS)
    whole = not (asked.parts or asked.only or asked.quick)
    run = Run(quick=asked.quick, whole=whole, minutes=asked.minutes)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that pieces are ended
    return run.measure(stages(names, only))


def install() -> int:
    """Install what contenders need; return 1 if one cannot be had."""
    failed = False
    for name, provide in INSTALLED.items():
        try:
            provide()
            print(f"{name}: installed", flush=True)
        except (RuntimeError, OSError) as error:
            failed = True
            print(f"{name}: {error}", flush=True)
    return int(failed)


def stages(names: list[str], only: list[str]) -> list[list[Job]]:
    """Return the pieces in their order: those of one stage may run side by side.

    First the headline for the main contenders, then what mostly waits, then the other parts, then
    the other contenders.
    """
    jobs = [Job(name, each) for name in names for each in _contenders(PARTS[name], only)]
    beside = [job for job in jobs if PARTS[job.part].beside]
    alone = [job for job in jobs if not PARTS[job.part].beside]
    first = [[job] for job in alone if job.headline]
    rest = sorted((job for job in alone if not job.headline), key=_rank)
    return [*first, *([beside] if beside else []), *([job] for job in rest)]


def _rank(job: Job) -> int:
    """Return the place of a piece among those that may be left out: parts, `stream`, others."""
    if job.contender == NOBODY:
        return 0
    return 1 if CONTENDERS[job.contender].ours else 2


class Run:
    """Measures stages, and keeps what comes."""

    def __init__(self, *, quick: bool, whole: bool, minutes: float) -> None:
        self._quick = quick
        self._whole = whole
        self._began = time.monotonic()
        self._deadline = self._began + 60 * minutes
        self._file = results_file.FOLDER / "quick.json" if quick else results_file.FILE
        self._lock = Lock()
        self._failed = False

    def measure(self, stages: list[list[Job]]) -> int:
        """Measure; return 1 if a piece failed."""
        if self._whole:
            results_file.forget(self._file)
        with ExitStack() as stack:
            stack.callback(end_all)
            for stage in stages:
                self._provide(stack, stage)
                lanes: dict[str, list[Job]] = {}
                for job in stage:
                    lanes.setdefault(job.lane, []).append(job)
                with ThreadPoolExecutor(len(lanes)) as pool:
                    try:
                        list(pool.map(self._run, lanes.values()))
                    finally:
                        end_all()
        results = results_file.load(self._file)
        if self._whole:
            results = results_file.keep_run(spread.figures(results), self._file)
        print(f"\n{report.headline(results)}\n\n{report.targets(results)}")
        if not self._quick:
            write_report(results)
        print(f"Written: {self._file}, after {self._minutes():.1f} minutes")
        return int(self._failed)

    def _run(self, lane: list[Job]) -> None:
        for job in lane:
            late = time.monotonic() > self._deadline and not job.headline
            nice = NICE if PARTS[job.part].beside and job.contender == NOBODY else 0
            limit = PARTS[job.part].limit_seconds
            found = (
                Piece(None, "no time was left", 0.0)
                if late
                else run_piece(*job, quick=self._quick, limit_seconds=limit, nice=nice)
            )
            with self._lock:
                results_file.merge(*job, found.data, found.error, self._file)
                self._failed = self._failed or found.error is not None
                took = f"{found.seconds:.0f} s, {self._minutes():.1f} min"
                print(f"{job.part} {job.contender} ({took})", flush=True)
                print(f"  {found.error or report.line_of(job.part, found.data)}", flush=True)

    def _provide(self, stack: ExitStack, stage: list[Job]) -> None:
        """Start what several pieces share, when the first of them needs it."""
        if any(job.contender.startswith("kcl") for job in stage):
            _provide_dynamodb(stack)
        if stage[0].part == "catch_up" and catch_up.VARIABLE not in os.environ:
            service = stack.enter_context(catch_up.backlogs(quick=self._quick))
            os.environ[catch_up.VARIABLE] = service.endpoint_url

    def _minutes(self) -> float:
        return (time.monotonic() - self._began) / 60


def _contenders(part: Part, only: list[str]) -> list[str]:
    if not part.compared:
        return [NOBODY]
    return [
        name
        for name in only
        if (CONTENDERS[name].shared or not part.shared_only)
        and (part.pushed or not CONTENDERS[name].pushed)
        and (part is PARTS["delay"] or not CONTENDERS[name].delay_only)
    ]


def _provide_dynamodb(stack: ExitStack) -> None:
    """Start DynamoDB Local for the leases of the Kinesis Client Library, once."""
    if kcl.DYNAMODB_VARIABLE in os.environ:
        return
    from tests.servers.aws import dynamodb_local
    from tests.servers.process import ServerMissing

    try:
        endpoint = stack.enter_context(dynamodb_local())
        os.environ[kcl.DYNAMODB_VARIABLE] = endpoint.endpoint_url
    except ServerMissing as error:  # the pieces that need it say that they lack it
        print(error, flush=True)


def write_report(results: results_file.Results) -> None:
    """Write the tables into the documents, and the picture."""
    report.write(results)
    (results_file.FOLDER / "results.svg").write_text(picture.draw(results))


if __name__ == "__main__":
    sys.exit(main())
