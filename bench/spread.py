"""How far the figures of the headline may differ from run to run, and whether two runs agree.

A figure states a range: that of its rounds within the run, and never narrower than its kind's
least spread, because a run of half an hour cannot measure most of them several times. The least
spreads were seen on a virtual machine of two cores, on which the same code takes a third more CPU
time in one hour than in another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.contenders import CONTENDERS
from bench.parts.follow import GRID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Figures = dict[str, dict[str, Any]]
SEPARATOR: Final = ": "


class Least(NamedTuple):
    """The least spread of a kind of figure, either way: the larger of the two."""

    share: float
    absolute: float = 0.0


SILENCE_OF_OTHERS: Final = Least(1.0, 1.0)
"""Whether a worker of the KCL hands its leases over when it is stopped differs from run to run."""
FULL_CORES: Final = Least(0.25, 0.08)
"""Of a share of the quota below `AT_THE_QUOTA`: the cores are the limit, and their speed varies."""
AT_THE_QUOTA: Final = 0.9
LEAST: Final = {
    "full shards followed": Least(0, 0),  # a step of the search either way
    "share of quota": Least(0, 0.08),
    "delay p50": Least(0.25, 0.03),
    "delay p99": Least(0.35, 0.08),
    "CPU s a million": Least(0.35),
    "memory": Least(0.15),
    "first record": Least(0.25, 0.3),
    "longest silence": Least(0.45, 1.0),
}


def figures(results: Mapping[str, Any]) -> Figures:
    """Return each figure of the headline with the range that it states."""
    found: Figures = {}
    for name in CONTENDERS:
        of = {part: data[name] for part, data in results["parts"].items() if name in data}
        for kind, where, value, rounds in _values(of):
            if value is not None:
                least = _least(kind, name, value)
                low, high = _range(least, value, [each for each in rounds if each is not None])
                title = SEPARATOR.join(filter(None, (kind, name, where)))
                found[title] = {"value": value, "low": low, "high": high}
        if "follow" in of:
            title = SEPARATOR.join(("full shards followed", name))
            found[title] = _followed(of["follow"])
    return found


def _values(of: Mapping[str, Any]) -> Iterator[tuple[str, str, float | None, list[float | None]]]:
    for shards, each in of.get("catch_up", {}).items():
        yield "share of quota", f"{shards} shards", each.get("share"), []
    delay = of.get("delay", {})
    for load in ("trickle", "half"):
        for which in ("p50", "p99"):
            yield f"delay {which}", load, *_with_rounds(delay.get(load), f"{which}_seconds")
    yield "CPU s a million", "", *_with_rounds(delay.get("full"), "cpu_seconds_per_million")
    yield "memory", "", *_with_rounds(delay.get("full"), "memory_mib")
    yield "first record", "", delay.get("first_record_seconds"), []
    for storm in ("kill", "deploy", "storm"):
        silence = of.get("failover", {}).get(storm, {}).get("silence_seconds")
        yield "longest silence", storm, silence, []


def _with_rounds(load: Mapping[str, Any] | None, name: str) -> tuple[float | None, list[Any]]:
    if load is None:
        return None, []
    return load[name], [each[name] for each in load.get("rounds", [])]


def _least(kind: str, contender: str, value: float) -> Least:
    if kind == "longest silence" and not CONTENDERS[contender].ours:
        return SILENCE_OF_OTHERS
    if kind == "share of quota" and value < AT_THE_QUOTA:
        return FULL_CORES
    return LEAST[kind]


def _range(least: Least, value: float, rounds: list[Any]) -> tuple[float, float]:
    most = max(least.share * value, least.absolute)
    low, high = min([value - most, *rounds]), max([value + most, *rounds])
    return float(f"{max(0.0, low):.4g}"), float(f"{high:.4g}")


def _followed(found: Mapping[str, Any]) -> dict[str, Any]:
    """State a step of the search either way; no upper end if the reader was not the limit."""
    value = found["shards"]
    steps = (0, *GRID)
    at = steps.index(value) if value in steps else 0
    open_end = found["at_least"] or found["limited_by_writer"]
    high = steps[min(at + 1, len(steps) - 1)]
    return {"value": value, "low": steps[max(0, at - 1)], "high": None if open_end else high}


def apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return true if two values of a figure differ by more than they state."""
    highs = [each["high"] for each in (one, other) if each["high"] is not None]
    return bool(max(one["low"], other["low"]) > min(highs, default=float("inf")))


def compared(one: Figures, other: Figures) -> str:
    """Return a line for each figure of two runs that differs by more than they state."""
    both = [title for title in one if title in other]
    lines = [
        f"{title}: {_stated(one[title])} and {_stated(other[title])}"
        for title in both
        if apart(one[title], other[title])
    ]
    return "\n".join(
        [*lines, f"{len(lines)} of {len(both)} figures differ by more than they state"]
    )


def _stated(figure: Mapping[str, Any]) -> str:
    high = "more" if figure["high"] is None else f"{figure['high']:.3g}"
    return f"{figure['value']:.3g} ({figure['low']:.3g} to {high})"


def rows(results: Mapping[str, Any]) -> list[list[str]]:
    """Return for each kind of figure what it states, and how the last two whole runs differ."""
    now = figures(results)
    before = results.get("runs", [])[-2:-1]
    return [row for kind in LEAST if (row := _row(kind, now, before[0] if before else None))]


def _row(kind: str, now: Figures, before: Figures | None) -> list[str]:
    of_kind = {title: each for title, each in now.items() if title.startswith(kind + SEPARATOR)}
    if not of_kind:
        return []
    least = LEAST[kind]
    parts = [f"{least.share:.0%}"] if least.share else []
    parts += [f"{least.absolute:g}"] if least.absolute else []
    stated = f"± {' or '.join(parts)}" if parts else "a step of the search"
    if kind == "longest silence":
        stated += f"; of others ± {SILENCE_OF_OTHERS.share:.0%}"
    if kind == "share of quota":
        stated += f"; below {AT_THE_QUOTA} ± {FULL_CORES.share:.0%}"
    if before is None:
        return [kind, stated, str(len(of_kind)), "–"]
    both = [title for title in of_kind if title in before]
    far = [title for title in both if apart(of_kind[title], before[title])]
    return [kind, stated, str(len(of_kind)), f"{len(far)} of {len(both)}"]
