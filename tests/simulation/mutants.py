"""Switch on every known bug in turn, and print what it takes until it is caught.

First seeds are tried, aimed at the worlds in which a bug can show itself (see `aims`); then the
schedules of the small world (see `small_scopes`); then the unit and property tests of its case.
Each search ends after `--cpu-seconds`. With `--record` results are kept in a file, so that a run
can be ended and gone on with; `--also` names a file with what `tools/planted_bugs.py` printed;
`--write` puts all of them into the table of a page.
"""

# ruff: noqa: T201 - it prints a table

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from functools import partial
from itertools import count
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Final

from shardline.core.positions import LATEST
from tests.simulation.aims import WORLDS
from tests.simulation.bugs import BUGS
from tests.simulation.failing_test import first_failure
from tests.simulation.small_scopes import run
from tests.simulation.world import plan_of, simulate
from tools.planted_bugs import BUGS as PLANTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.bugs import Bug
    from tests.simulation.small_scopes import Result

SMALL_CALLS: Final = 208
_BEGIN, _END = "<!-- mutants -->\n", "<!-- end of mutants -->\n"
_ROOT: Final = Path(__file__).parent.parent
_TIERS: Final = ("unit", "property")
_OF_WORKERS: Final = ("unit/leases", "unit/consumer", "unit/core/leasing")
_Results = dict[tuple[str, str], tuple[str, str]]


def needed(bug: Bug, cpu_seconds: float) -> tuple[str, str]:
    """Return what it took to catch a bug, empty if nothing did, and what was seen."""
    with bug.installed():
        found = _seeds(bug, cpu_seconds) or _small_world(cpu_seconds)
    return found or _tests(bug) or ("", "")


def _seeds(bug: Bug, cpu_seconds: float) -> tuple[str, str] | None:
    label, fits = WORLDS.get(bug.what, ("", None))
    where, ran, ends_at = f" with {label}" if label else "", 0, process_time() + cpu_seconds
    for seed in count():
        if process_time() > ends_at:
            return None
        if fits is None or fits(plan_of(seed)):
            ran += 1
            outcome = simulate(seed)
            if outcome.failure:
                return f"{ran} seed{'s' * (ran > 1)}{where}", _seen(outcome.failure)
    return None


def _small_world(cpu_seconds: float) -> tuple[str, str] | None:
    ends_at = process_time() + cpu_seconds
    for number, (name, schedule) in enumerate(_schedules(), start=1):
        if process_time() > ends_at:
            return None
        failure = schedule().failure
        if failure:
            return f"{number} small schedules ({name})", _seen(failure)
    return None


def _tests(bug: Bug) -> tuple[str, str] | None:
    with bug.installed():
        found = first_failure(files_of(bug.case))
    if found and first_failure([found]):
        raise AssertionError(f"{found} fails without any bug")
    file, _, test = found.rpartition("/")[2].partition("::")
    return (f"`{file}`: `{test}`", "a test fails") if found else None


def files_of(case: str) -> list[str]:
    """Return the unit and property tests that carry a case, then all of workers and leases."""
    marked = re.compile(rf'(case|req)\([^)]*"{case}"')
    files = [file for tier in _TIERS for file in sorted((_ROOT / tier).rglob("test_*.py"))]
    files.append(_ROOT / "simulation" / "test_leases_at_scale.py")
    found = [str(file) for file in files if marked.search(file.read_text())]
    return found + [str(_ROOT / folder) for folder in _OF_WORKERS]


def _seen(failure: str) -> str:
    """Return what was seen. A mutant that does not fit the code any more proves nothing."""
    if failure.startswith(("TypeError", "AttributeError", "NameError", "KeyError")):
        raise AssertionError(f"the mutant itself is broken: {failure}")
    return failure.splitlines()[0]


def _schedules() -> Iterator[tuple[str, Callable[[], Result]]]:
    """Return schedules of the small world: writes that fail, an early split, a death at a call."""
    for fate in ("request lost", "applied late"):
        for call in run({}).writes:
            yield f"{fate} at write {call}", partial(run, {call: fate})
    for hundredths in range(2, 101, 2):
        at = hundredths / 100
        yield f"from latest, a split at {at} s", partial(run, {}, start=LATEST, split_at=at)
    for call in range(1, SMALL_CALLS + 1):
        yield f"crash at call {call}", partial(run, {call: "crash"})


def _results(path: Path | None) -> _Results:
    """Return the results that were recorded before."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(case, what): (took, seen) for case, what, took, seen in lines}


def results_of_planted_bugs(printed: str) -> _Results:
    """Return what `tools/planted_bugs.py` printed: one row for each id of a bug."""
    results: _Results = {}
    for bug in PLANTED:
        took = f"`{bug.test}`" if f"caught  {bug.ids}: {bug.what}\n" in printed else ""
        if took or f"MISSED  {bug.ids}: {bug.what}\n" in printed:
            results |= dict.fromkeys([(case, bug.what) for case in bug.ids.split()], (took, ""))
    return results


def write_table(page: Path, results: _Results) -> None:
    """Put the table of all results between the marks of a page."""
    before, _, rest = page.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    rows = "".join(
        f"| {case} | {what} | {took or '**escaped**'} |\n"
        for (case, what), (took, _) in sorted(results.items())
    )
    head = "| case | the bug that is switched on | caught by |\n|---|---|---|\n"
    page.write_text(f"{before}{_BEGIN}{head}{rows}{_END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-seconds", type=float, default=20.0, help="the most for each search")
    parser.add_argument("--only", nargs="+", help="only bugs of these cases, or with these words")
    parser.add_argument("--record", type=Path, help="keep results here; known ones are not made")
    parser.add_argument("--also", type=Path, help="what planted_bugs.py printed, for the table")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    known = {(bug.case, bug.what) for bug in BUGS}
    results = {key: it for key, it in _results(chosen.record).items() if key in known}
    for bug in BUGS:
        key = (bug.case, bug.what)
        wanted = not chosen.only or any(word in (bug.case, bug.what) for word in chosen.only)
        if key not in results and wanted:
            results[key] = needed(bug, chosen.cpu_seconds)
            if chosen.record is not None:
                with chosen.record.open("a") as lines:
                    lines.write(json.dumps([*key, *results[key]]) + "\n")
            took, seen = results[key]
            print(
                f"{bug.case:5} {took or 'NOT CAUGHT'}: {bug.what}\n{'':6}{seen[:100]}", flush=True
            )
    if chosen.also is not None:
        results |= results_of_planted_bugs(chosen.also.read_text())
    escaped = sum(not took for took, _ in results.values())
    print(f"{len(results)} mutants: {len(results) - escaped} caught, {escaped} escaped")
    if chosen.write is not None:
        write_table(chosen.write, results)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
