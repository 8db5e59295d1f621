"""`python -m bench`: every bench in one run, as ratios with their spread; nothing is left out.

`--only wire` runs some, `--quick` runs what fits into a few minutes, with fewer rounds and records.
Tables go to the terminal, all of it to bench/results/latest.json, and a picture beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.environment import described
from bench.plot import draw
from bench.running import Outcome, run_bench
from bench.tables import table_of, targets_of

if TYPE_CHECKING:
    from bench.figures import Figure

RESULTS: Final = Path(__file__).parent / "results"
NO_TERMINAL_WIDTH: Final = 170


class Bench(NamedTuple):
    """What a bench is about, and how long it may take; it is stopped after that."""

    about: str
    limit_seconds: float
    in_quick: bool = True
    """Whether it can be had in a minute."""


BENCHES: Final = {
    "wire": Bench("a response body becomes Arrow columns", 300),
    "local_server": Bench("the embedded service, which must not be what limits the others", 90),
    "readers": Bench("a whole Kinesis stream, read by everybody in turns", 600),
    "stream": Bench("next(stream) and typed changes, beside boto3 and Bloop", 420),
    "memory": Bench("memory over ten million records, and their CPU", 300),
    "leasing": Bench("many shards on many workers: what their leases cost", 600, in_quick=False),
    "spark_source": Bench("Spark reads, beside a source written with boto3", 900, in_quick=False),
    "leased": Bench("Spark workers: how a kill and a deploy are felt", 600, in_quick=False),
    "kcl": Bench("the Kinesis Client Library, Java and its daemon", 900, in_quick=False),
    "connector": Bench("the Spark connector of awslabs", 240, in_quick=False),
}
"""By module; each has `figures(quick=…)`, or `run(rounds)`."""


def main() -> int:
    """Run what is asked for; 1 if a bench failed, 0 otherwise, whatever the figures say."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=BENCHES, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and records")
    asked = parser.parse_args()
    names = asked.only or [n for n, b in BENCHES.items() if b.in_quick or not asked.quick]
    console = Console(width=None if sys.stdout.isatty() else NO_TERMINAL_WIDTH)
    outcomes = _run_all(names, console, quick=asked.quick)
    results = {name: outcome.figures for name, outcome in outcomes.items()}
    errors = {name: each.error for name, each in outcomes.items() if each.error}
    console.print(targets_of(results, errors))
    verdicts = [figure.met for figures in results.values() for figure in figures]
    console.print(
        f"{verdicts.count(True)} met, {verdicts.count(False)} missed, {len(errors)} failed"
    )
    console.print(f"Written: {RESULTS / 'latest.json'} and {RESULTS / 'latest.svg'}")
    return 1 if errors else 0


def _run_all(names: list[str], console: Console, *, quick: bool) -> dict[str, Outcome]:
    watched = Console(stderr=True)
    outcomes: dict[str, Outcome] = {}
    with Progress(
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=watched,
        transient=True,
    ) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            bench = BENCHES[name]
            title = f"{name}: {bench.about}"
            if not watched.is_terminal:
                watched.print(f"{title} …", highlight=False)
            progress.update(task, description=title)
            outcomes[name] = run_bench(
                name,
                quick=quick,
                limit_seconds=bench.limit_seconds,
                say=lambda said, name=name: progress.update(  # type: ignore[misc]
                    task, description=f"{name}: {said}"
                ),
            )
            outcome = outcomes[name]
            _keep(outcomes, quick=quick)  # so far: whoever breaks off has what was measured
            progress.advance(task)
            title += f" ({outcome.seconds:.0f} s)"
            console.print(
                table_of(title, _command(name, quick=quick), outcome.figures, outcome.error)
            )
    return outcomes


def _command(name: str, *, quick: bool) -> str:
    return f"python -m bench --only {name}" + (" --quick" if quick else "")


def _keep(outcomes: dict[str, Outcome], *, quick: bool) -> None:
    where = described()
    kept: dict[str, Any] = {
        "quick": quick,
        "command": " ".join(["python -m bench", *sys.argv[1:]]),
        **where,
        "seconds": {name: round(each.seconds, 1) for name, each in outcomes.items()},
        "load_before": {name: round(each.load_before, 1) for name, each in outcomes.items()},
        "failed": {name: each.error for name, each in outcomes.items() if each.error},
        "left_out": [name for name in BENCHES if name not in outcomes],
        "benches": {
            name: [figure.as_json(_command(name, quick=quick)) for figure in outcome.figures]
            for name, outcome in outcomes.items()
        },
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    versions = " · ".join(f"{name} {number}" for name, number in where["versions"].items())
    machine = f"{where['date'][:10]} · {where['cores']} cores, {where['processor']}"
    results: dict[str, list[Figure]] = {n: outcome.figures for n, outcome in outcomes.items()}
    (RESULTS / "latest.svg").write_text(draw(results, [machine, versions]))


if __name__ == "__main__":
    sys.exit(main())
