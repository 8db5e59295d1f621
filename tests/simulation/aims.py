"""In which worlds a bug can show itself: without such a world nobody can see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardline.core.positions import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import Plan

_RESHARDS = {"split", "merge", "storm"}
_TABLE_TROUBLES = {"lose: table", "hang: table", "slow: table", "outage: table"}
_TABLE_AWAY = {"outage: table", "hang: table"}


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


def _table_away(plan: Plan) -> bool:
    return plan.knobs.workers > 1 and _has(_TABLE_AWAY)(plan)


def _hangs_alone(plan: Plan) -> bool:
    return plan.knobs.workers == 1 and _has({"hang"})(plan) and not _has({"newcomer"})(plan)


def _early_night(plan: Plan) -> bool:
    """Return true if workers sleep before they have read their first page, for half a day."""
    return any(f.kind == "night" and f.at < 4 and f.night_seconds < 86_000 for f in plan.faults)


def _switched(plan: Plan) -> bool:
    return plan.knobs.tables and _has({"recreate"})(plan)


_A_NIGHT = ("a night", _has({"night"}))
_A_DEPLOY = ("a deploy", _deploys)
_OFF_AND_ON = ("a table that is switched off and on", _switched)
_NO_END = ("trouble with the table, a reshard", _has(_TABLE_TROUBLES, _RESHARDS))

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
        "trouble with the table",
        _has(_TABLE_TROUBLES),
    ),
    "a worker ends when the table is away for longer than a lease": (
        "a table that is away",
        _table_away,
    ),
    "a worker that leaves takes leases": _A_DEPLOY,
    "leaving is not recorded: leases are dealt to who has left": _A_DEPLOY,
    "leases are not given back": _A_DEPLOY,
    "what nobody has room for is not said": ("too few workers", _full),
    "a late checkpoint overwrites the completed mark": _NO_END,
    "an end that was not answered is not tried again": _NO_END,
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
        _table_away,
    ),
    "a lease that was given waits for its asker for ever": (
        "a newcomer and deaths",
        lambda plan: plan.knobs.workers > 1 and _has({"newcomer"}, {"crash"})(plan),
    ),
    "a child that waits does not move with its parent": ("a night", _has({"night"}, _RESHARDS)),
    "a young stream has records that are older than it": ("an early night", _early_night),
    "a place has no time before its first page": _A_NIGHT,
    "a stream made again is taken for a first start": (
        "a stream made again, a night",
        _has({"recreate"}, {"night"}),
    ),
    "a stream that is being created ends the worker": (
        "a stream made again, which takes a while",
        lambda plan: plan.knobs.status_delay_ms > 0 and _has({"recreate"})(plan),
    ),
    "what is not found is gone, however young it is": (
        "stale listings, a reshard",
        _has({"stale listing"}, _RESHARDS),
    ),
    "a process that still runs a call that was given up stays": (
        "one worker, whose consumer hangs",
        _hangs_alone,
    ),
    "the stream before is left as soon as there is another one": _OFF_AND_ON,
    "a stream is left when it is closed, though it is not processed": _OFF_AND_ON,
    "the next stream of a table is never looked for": _OFF_AND_ON,
    "a consumer that hangs keeps its lease for ever": ("a consumer that hangs", _has({"hang"})),
}
"""The seeds that a bug is tried with, by what it does, and how the table calls them."""
