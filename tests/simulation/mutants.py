"""Switch on every known bug in turn, and print how many seeds it takes until it is caught.

A bug that needs a certain world (a night, a deploy) is tried with seeds that have it: see `WORLDS`.
What no seed catches is tried in the small world: see `small_scopes`. With `--record` results are
kept in a file, so that a run can be ended and gone on with; `--write` puts the table into a page.

`python -m tests.simulation.mutants [--most N] [--most-small N] [--case W-02 …] [--record FILE]
[--write PAGE]`
"""

# ruff: noqa: T201 - it prints a table

from __future__ import annotations

import argparse
import json
import logging
import sys
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shardline.core.positions import LATEST
from tests.simulation.bugs import BUGS
from tests.simulation.small_scopes import run
from tests.simulation.world import plan_of, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.bugs import Bug
    from tests.simulation.small_scopes import Result
    from tests.simulation.world import Plan

SMALL_CALLS: Final = 208
_BEGIN, _END = "<!-- mutants -->\n", "<!-- end of mutants -->\n"
_RESHARDS = {"split", "merge", "storm"}
_TABLE_TROUBLES = {"lose: table", "hang: table", "slow: table", "outage: table"}


def _has(*groups: set[str]) -> Callable[[Plan], bool]:
    """Return whether a plan has a fault of each group."""

    def has(plan: Plan) -> bool:
        kinds = {fault.kind for fault in plan.faults}
        return all(kinds & group for group in groups)

    return has


def _deploys(plan: Plan) -> bool:
    exact = not plan.knobs.stale_listing_one_in and not plan.knobs.stream_noise
    return _has({"deploy"})(plan) and exact and plan.knobs.workers > 1


def _full(plan: Plan) -> bool:
    capacity = plan.knobs.capacity
    return capacity is not None and plan.knobs.shards > capacity * plan.knobs.workers


def _late_messages(plan: Plan) -> bool:
    return plan.knobs.link_seconds > 0.1 and _has({"pause keeper", "sleep"})(plan)


def _lags_and_fails(plan: Plan) -> bool:
    knobs = plan.knobs
    lags = knobs.put_seconds < 1 and knobs.work_seconds > 0.05 and knobs.batch_records < 10
    failing = lags and knobs.read_ahead_records > 1 and knobs.failure_rate > 0.1
    return failing and knobs.workers > 1 and _has({"deploy"})(plan)


def _begins_late(plan: Plan) -> bool:
    return plan.knobs.start is LATEST and _has(_RESHARDS)(plan)


WORLDS: Final[dict[str, tuple[str, Callable[[Plan], bool]]]] = {
    "a listing is made by the thread that renews": (
        "a listing that does not answer",
        lambda plan: plan.knobs.workers > 1 and _has({"hang: listing", "outage: listing"})(plan),
    ),
    "a page is dropped when the question about a gap before it fails": (
        "a stream that fails often",
        lambda plan: plan.knobs.stream_noise > 0.1,
    ),
    "an acknowledgement is believed whatever its epoch": ("late messages", _late_messages),
    "read-ahead records overtake a delivery that was given up": (
        "a consumer that fails and lags, a deploy",
        _lags_and_fails,
    ),
    "a write without an answer is believed to have happened": (
        "trouble with the table, a death",
        _has(_TABLE_TROUBLES, {"crash"}),
    ),
    "a worker that leaves takes leases": ("a deploy", _deploys),
    "leaving is not recorded: leases are dealt to who has left": ("a deploy", _deploys),
    "leases are not given back": ("a deploy", _deploys),
    "what nobody has room for is not said": ("too few workers", _full),
    "a late checkpoint overwrites the completed mark": (
        "trouble with the table, a reshard",
        _has(_TABLE_TROUBLES, _RESHARDS),
    ),
    "an end that was not answered is not tried again": (
        "trouble with the table, a reshard",
        _has(_TABLE_TROUBLES, _RESHARDS),
    ),
    "a hand-over does not wait for the running batch": (
        "peace, a slow consumer",
        lambda plan: plan.peaceful and plan.knobs.work_seconds > 0.1 and plan.knobs.workers > 1,
    ),
    "what is closed at the first listing is skipped, whenever it was closed": (
        "a start at latest, a reshard",
        _begins_late,
    ),
    "after latest a parent whose row was not read is taken for skipped": (
        "a start at latest, a reshard, a table that lags",
        lambda plan: _begins_late(plan) and _has({"table lags"})(plan),
    ),
    "a dead owner is not asked again before its lease is taken": (
        "a table that is away",
        lambda plan: plan.knobs.workers > 1 and _has({"outage: table", "hang: table"})(plan),
    ),
    "a child that waits does not move with its parent": ("a night", _has({"night"}, _RESHARDS)),
    "a young stream has records that are older than it": ("a night", _has({"night"})),
    "a place has no time before its first page": ("a night", _has({"night"})),
    "a stream made again is taken for a first start": (
        "a stream made again, a night",
        _has({"recreate"}, {"night"}),
    ),
    "what is not found is gone, however young it is": ("stale listings", _has({"stale listing"})),
}
"""The seeds that a bug is tried with, by what it does: without such a world nobody can see it."""


def needed(bug: Bug, most: int, most_small: int | None = None) -> tuple[str, str]:
    """Return what it took to catch a bug, empty if nothing did, and what was seen."""
    label, fits = WORLDS.get(bug.what, ("", None))
    seeds = (seed for seed in count() if fits is None or fits(plan_of(seed)))
    with bug.installed():
        for number, seed in enumerate(islice(seeds, most), start=1):
            outcome = simulate(seed)
            if outcome.failure:
                where = f" with {label}" if label else ""
                return f"{number} seed{'s' * (number > 1)}{where}", _seen(outcome.failure)
        for number, (name, schedule) in enumerate(islice(_schedules(), most_small), start=1):
            failure = schedule().failure
            if failure:
                return f"{number} small schedules ({name})", _seen(failure)
    return "", ""


def _seen(failure: str) -> str:
    """Return what was seen. A mutant that does not fit the code any more proves nothing."""
    if failure.startswith(("TypeError", "AttributeError", "NameError", "KeyError")):
        raise AssertionError(f"the mutant itself is broken: {failure}")
    return failure.splitlines()[0]


def _schedules() -> Iterator[tuple[str, Callable[[], Result]]]:
    """Return schedules of the small world: none, one lost call, or one dead process."""
    yield "from latest", partial(run, {}, start=LATEST, split_at=0.25)
    for fate in ("request lost", "crash", "kill runner"):
        for call in range(1, SMALL_CALLS + 1):
            yield f"{fate} at call {call}", partial(run, {call: fate})


def _results(path: Path | None) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the results that were recorded before."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(case, what): (took, seen) for case, what, took, seen in lines}


def _write_table(page: Path, results: dict[tuple[str, str], tuple[str, str]]) -> None:
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
    parser.add_argument("--most", type=int, default=60, help="seeds to try for each")
    parser.add_argument("--most-small", type=int, help="schedules of the small world to try then")
    parser.add_argument("--case", nargs="+", help="only the bugs of these cases")
    parser.add_argument("--record", type=Path, help="keep results here; known ones are not made")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    results = _results(chosen.record)
    for bug in BUGS:
        key = (bug.case, bug.what)
        if key not in results and (not chosen.case or bug.case in chosen.case):
            results[key] = needed(bug, chosen.most, chosen.most_small)
            if chosen.record is not None:
                with chosen.record.open("a") as lines:
                    lines.write(json.dumps([*key, *results[key]]) + "\n")
            took, seen = results[key]
            print(
                f"{bug.case:5} {took or 'NOT CAUGHT'}: {bug.what}\n{'':6}{seen[:100]}", flush=True
            )
    escaped = sum(not took for took, _ in results.values())
    print(f"{len(results)} mutants: {len(results) - escaped} caught, {escaped} escaped")
    if chosen.write is not None:
        _write_table(chosen.write, results)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
