"""Everybody reads the same Kinesis stream, each in an environment and a process of its own.

`python -m bench.readers` prints how fast each is beside the boto3 loop that one writes by hand.
What each delivered is judged by the promise checker: a reader that loses or shuffles is not fast.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.canned import Server, Stock, canned
from bench.environment import python_with
from bench.figures import Figure, print_plainly, ratios, say
from bench.fitting import fit

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 5
ROUNDS_OF_OTHERS: Final = 3
"""Of the streams that only ours and the baseline read, to see how the cost grows."""
RECORDS: Final = {100: 80_000, 1_000: 40_000, 10_000: 8_000}
SHARDS: Final = (1, 8, 64)
USUAL: Final = (8, 1_000)
"""Shards and bytes of the stream that everybody reads; ours read the others too."""
BASELINE: Final = "boto3 loop"
LIMIT_SECONDS: Final = 300
SCRIPTS: Final = Path(__file__).parent / "contenders"


class Contender(NamedTuple):
    """How to start somebody."""

    script: str
    arguments: tuple[str, ...] = ()
    python: Callable[[], Path] = lambda: Path(sys.executable)
    ours: bool = False
    note: str = ""


CONTENDERS: Final = {
    BASELINE: Contender("boto3_loop.py", ours=True),
    "shardline, next(stream)": Contender("shardline_next.py", ours=True),
    "shardline, Arrow pages": Contender("shardline_pages.py", ("json",), ours=True),
    "shardline, Arrow pages in CBOR": Contender("shardline_pages.py", ("cbor",), ours=True),
    "async-kinesis 3.0.1": Contender(
        "async_kinesis_reader.py",
        python=lambda: python_with("async-kinesis", "async-kinesis==3.0.1"),
        note="sleeps 0.2 s before every round of reads",
    ),
}


class Run(NamedTuple):
    """What one run of a contender cost."""

    wall_seconds: float
    cpu_seconds: float
    peak_rss_kib: float


def run(rounds: int = ROUNDS, scale: float = 1.0) -> list[Figure]:
    """Let everybody read in turns; whoever fails has its error in the table."""
    measured: list[Figure] = []
    runs: dict[Stock, dict[str, list[Run]]] = {}
    for size in RECORDS:
        for shards in SHARDS:
            if size == USUAL[1] or shards == USUAL[0]:
                stock = Stock(f"s{shards}-{size}", shards, int(RECORDS[size] * scale), size)
                say(f"{shards} shards × {size:,} B")
                with canned([stock]) as server:
                    usual = (shards, size) == USUAL
                    turns = rounds if usual else min(rounds, ROUNDS_OF_OTHERS)
                    runs[stock], errors = _read_in_turns(server, stock, turns)
                measured += _figures(stock, runs[stock], errors)
    return measured + _fits(runs)


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure for `python -m bench`."""
    if quick:
        stock = Stock("quick", USUAL[0], RECORDS[USUAL[1]] // 2, USUAL[1])
        with canned([stock]) as server:
            return _figures(stock, *_read_in_turns(server, stock, 2))
    return run()


def _read_in_turns(
    server: Server, stock: Stock, rounds: int
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    everybody = (stock.shards, stock.record_bytes) == USUAL
    runs: dict[str, list[Run]] = {}
    errors: dict[str, str] = {}
    for _ in range(rounds):
        for name, contender in CONTENDERS.items():
            if name in errors or not (contender.ours or everybody):
                continue
            try:
                runs.setdefault(name, []).append(run_once(server, stock, contender))
            except Exception as error:
                errors[name] = f"{type(error).__name__}: {str(error).splitlines()[-1]}"
    return runs, errors


def _figures(stock: Stock, runs: dict[str, list[Run]], errors: dict[str, str]) -> list[Figure]:
    stream = f"{stock.shards} shards × {stock.record_bytes:,} B"
    measured = [
        Figure(f"{name}, {stream}", BASELINE, (), note=f"FAILED: {error}")
        for name, error in errors.items()
    ]
    base = runs.get(BASELINE, [])
    for name, taken in runs.items():
        if name in errors or name == BASELINE:
            continue
        note = CONTENDERS[name].note
        cpu = sorted(each.cpu_seconds for each in taken)[len(taken) // 2] / stock.records
        rss = max(each.peak_rss_kib for each in taken) / 1024
        said = f"{cpu * 1e6:.1f} CPU s a million records, peak {rss:.0f} MiB, all kept"
        walls = [[each.wall_seconds for each in of_one] for of_one in (base, taken)]
        cpus = [[each.cpu_seconds for each in of_one] for of_one in (base, taken)]
        measured.append(Figure(f"{name}, {stream}", f"{BASELINE}, wall", ratios(*walls), note=note))
        measured.append(Figure(f"{name}, {stream}", f"{BASELINE}, CPU", ratios(*cpus), note=said))
    return measured


def _fits(runs: dict[Stock, dict[str, list[Run]]]) -> list[Figure]:
    """Say for each reader whether its cost grows on a straight line, with bytes and with shards."""
    measured = []
    for name in [name for name, contender in CONTENDERS.items() if contender.ours]:
        by_bytes, by_shards = [], []
        for stock, of_all in runs.items():
            micros = [each.cpu_seconds / stock.records * 1e6 for each in of_all.get(name, [])]
            if stock.shards == USUAL[0]:
                by_bytes += [(stock.record_bytes, each) for each in micros]
            if stock.record_bytes == USUAL[1]:
                by_shards += [(stock.shards, each) for each in micros]
        measured += [
            fit(f"{name}: CPU of a record by its bytes", by_bytes, "µs", "KB", 1_000),
            fit(f"{name}: CPU of a record by shards", by_shards, "µs", "shard", 1),
        ]
    return measured


def run_once(server: Server, stock: Stock, contender: Contender) -> Run:
    """Let a contender read a stream once, and let the promise checker judge it."""
    with TemporaryDirectory() as folder:
        deliveries = Path(folder) / "deliveries"
        command = [
            str(contender.python()),
            str(SCRIPTS / contender.script),
            server.endpoint_url,
            stock.name,
            str(stock.records),
            str(deliveries),
            *contender.arguments,
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
        )
        if done.returncode:
            said = (done.stderr or "it said nothing").strip()
            raise RuntimeError(said)
        server.judge(stock.name, deliveries).require()
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return Run(**told)


def main() -> None:
    """Print the table."""
    print(f"reading a whole stream, {ROUNDS} interleaved rounds: how many times faster than …")
    print_plainly(run())


if __name__ == "__main__":
    main()
