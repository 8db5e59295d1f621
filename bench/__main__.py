"""`python -m bench`: every bench in one run, as ratios with their spread; nothing is left out.

`--only wire` runs some, `--quick` runs all of them with fewer rounds and records. The table goes to
the terminal, all of it to bench/results/latest.json, and a picture beside it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.environment import described
from bench.plot import draw

if TYPE_CHECKING:
    from bench.figures import Figure

RESULTS: Final = Path(__file__).parent / "results"
BENCHES: Final = {
    "wire": "a response body becomes Arrow columns",
    "local_server": "the embedded service, which must not be what limits the others",
    "readers": "a whole Kinesis stream, read by everybody in turns",
    "stream": "next(stream), on Kinesis and DynamoDB Streams, beside boto3 and Bloop",
    "planning": "plans and lease ticks at 10, 1,000 and 10,000 shards",
    "spark_source": "Spark reads, beside a source written with boto3",
    "leased": "Spark workers: how long a kill and a deploy are felt, put to consumer",
    "kcl": "the Kinesis Client Library, Java and its Python daemon",
}
"""By module; each has `figures(quick=…)`, or `run(rounds)`."""


def main() -> int:
    """Run what is asked for; 1 if a bench failed, 0 otherwise, whatever the figures say."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=BENCHES, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and records")
    asked = parser.parse_args()
    names = asked.only or list(BENCHES)
    console = Console(stderr=False, width=None if sys.stdout.isatty() else 150)
    results: dict[str, list[Figure]] = {}
    errors: dict[str, str] = {}
    seconds: dict[str, float] = {}
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        for place, name in enumerate(names, 1):
            task = progress.add_task(f"{place}/{len(names)} {name}: {BENCHES[name]}", total=None)
            started = time.perf_counter()
            try:
                module = importlib.import_module(f"bench.{name}")
                if hasattr(module, "figures"):
                    results[name] = module.figures(quick=asked.quick)
                else:
                    results[name] = module.run(2) if asked.quick else module.run()
            except (Exception, SystemExit) as error:  # one that fails must not hide the others
                lines = str(error).strip().splitlines()
                errors[name] = f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"
            seconds[name] = round(time.perf_counter() - started, 1)
            progress.remove_task(task)
            console.print(_table(name, results.get(name, []), errors.get(name)))
    _keep(results, errors, seconds, quick=asked.quick)
    console.print(f"Written: {RESULTS / 'latest.json'} and {RESULTS / 'latest.svg'}")
    return 1 if errors else 0


def _table(name: str, figures: list[Figure], error: str | None) -> Table:
    table = Table(title=f"{name}: {BENCHES[name]}", title_justify="left", expand=False)
    for heading in ("what", "median", "spread", "against", "wanted", "note"):
        table.add_column(heading, justify="right" if heading in ("median", "spread") else "left")
    if error is not None:
        table.add_row("[red]FAILED[/red]", "", "", "", "", escape(error))
    for figure in figures:
        if not figure.rounds:
            note = f"[red]{escape(figure.note)}[/red]"
            table.add_row(figure.what, "–", "", figure.against, "", note)
            continue
        sign = "at most" if figure.at_most else "at least"
        wanted = "" if figure.target is None else f"{sign} {figure.target:g}"
        colour = {True: "green", False: "red", None: "default"}[figure.met]
        table.add_row(
            figure.what,
            f"[{colour}]{figure.median:,.3g} {figure.unit}[/{colour}]",
            f"{min(figure.rounds):,.3g} – {max(figure.rounds):,.3g}",
            figure.against,
            wanted + ("" if figure.met in (None, True) else " [red]MISSED[/red]"),
            escape(figure.note),
        )
    return table


def _keep(
    results: dict[str, list[Figure]],
    errors: dict[str, str],
    seconds: dict[str, float],
    *,
    quick: bool,
) -> None:
    where = described()
    kept = {
        "quick": quick,
        "command": "python -m bench " + " ".join(sys.argv[1:]),
        **where,
        "seconds": seconds,
        "failed": errors,
        "benches": {
            name: [figure.as_json() for figure in figures] for name, figures in results.items()
        },
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    subtitle = f"{where['date']}, Python {where['python']}, {versions}, {where['cores']} cores"
    (RESULTS / "latest.svg").write_text(draw(results, subtitle))


if __name__ == "__main__":
    sys.exit(main())
