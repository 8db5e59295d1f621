"""The table, the picture and the verdict of a soak, from the files that it wrote."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from bench.soak import picture
from bench.soak.history import EVENTS, judge, lines_of
from bench.soak.run import WORKERS
from bench.soak.samples import read_samples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WARM_UP_SECONDS: Final = 1800.0
"""The beginning that slopes leave out, half of a shorter run: caches fill, and bounded logs."""
MOST_MIB_PER_HOUR: Final = 1.0
JUDGED_SECONDS: Final = 1800.0
"""Shorter runs show slopes that mean nothing; they are judged by the promises alone."""


def write(folder: Path) -> int:
    """Print the table; write results.json and soak.svg. Return 1 if something is wrong."""
    samples = read_samples(folder)
    results = summary(samples)
    verdict = judge(folder, WORKERS)
    results["promises"] = {
        "written": verdict.written, "delivered": verdict.delivered, "lost": verdict.lost,
        "out_of_order": verdict.out_of_order, "repeated": verdict.repeated,
        "stale": verdict.stale, "breaches": {b.value: n for b, n in verdict.breaches.items()},
    }  # fmt: skip
    results["events"] = [json.loads(x) for x in lines_of(folder / EVENTS)]
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "soak.svg").write_text(picture.draw(samples, results))
    print(table(results))
    print(f"\nPromises: {json.dumps(results['promises'])}")
    for example in verdict.examples:
        print(f"  {example}")
    growing = growth(results)
    for line in growing:
        print(f"GROWS: {line}")
    print(f"Written: {folder}/results.json, {folder}/soak.svg")
    return int(bool(growing) or not verdict.kept)


def summary(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what each process used: slope and spread after the warm-up."""
    seconds = samples[-1]["at"]
    warm_up = min(WARM_UP_SECONDS, seconds / 2)
    warm = [each for each in samples if each["at"] >= warm_up]
    cpu = {role: samples[-1]["processes"][role]["cpu_seconds"] for role in warm[-1]["processes"]}
    processes = {}
    for role in warm[-1]["processes"]:
        of_role = [(x["at"] / 3600, x["processes"][role]) for x in warm if role in x["processes"]]
        hours = [at for at, _ in of_role]
        figures: dict[str, Any] = {
            name: [each[name] for _, each in of_role]
            for name in ("pss_mib", "rss_mib", "descriptors", "threads")
        }
        processes[role] = {
            "pss_slope_mib_per_hour": round(slope(hours, figures["pss_mib"]), 3),
            "rss_slope_mib_per_hour": round(slope(hours, figures["rss_mib"]), 3),
            "pss_mib": _spread(figures["pss_mib"]),
            "descriptors": _spread(figures["descriptors"]),
            "threads": _spread(figures["threads"]),
            "pids": len({each["pid"] for _, each in of_role}),
            "cpu_share": round(cpu[role] / seconds, 4),
        }
    return {
        "seconds": seconds,
        "warm_up_seconds": round(warm_up, 1),
        "samples": len(samples),
        "processes": processes,
        "log_lines_per_minute": {
            name: _per_minute([(x["at"], x["log_lines"][name]) for x in samples])
            for name in samples[-1]["log_lines"]
        },
        "lease_table_kib": _spread([x["lease_table_kib"] for x in warm]),
        "shards_seen": samples[-1]["shards"],
        "written": samples[-1]["written"],
        "refused_puts": samples[-1]["refused"],
    }


def growth(results: dict[str, Any]) -> list[str]:
    """Return what grew, a line each; nothing for a run too short to tell."""
    if results["seconds"] < JUDGED_SECONDS:
        return []
    found = []
    for role, used in results["processes"].items():
        if used["rss_slope_mib_per_hour"] >= MOST_MIB_PER_HOUR:
            found.append(f"{role}: {used['rss_slope_mib_per_hour']:+.2f} MB of RSS an hour")
        found += [
            f"{role}: {used[what]['first']:g} → {used[what]['last']:g} {what}"
            for what in ("descriptors", "threads")
            if used[what]["last"] > used[what]["first"] + 4
        ]
    return found


def table(results: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    lines = [
        f"{results['seconds'] / 3600:.2f} h, {results['written']:,} records, "
        f"{results['shards_seen']} shards, slopes after {results['warm_up_seconds'] / 60:.0f} min",
        "",
        "| process | RSS slope, MB/h | PSS slope, MB/h | PSS, MiB: first / last / most "
        "| descriptors: first / last / most | threads: first / last / most | CPU, cores |",
        "|---|---|---|---|---|---|---|",
    ]
    for role, used in results["processes"].items():
        spreads = " | ".join(
            "{first:g} / {last:g} / {most:g}".format(**used[name])
            for name in ("pss_mib", "descriptors", "threads")
        )
        lines.append(
            f"| {role} | {used['rss_slope_mib_per_hour']:+.2f} "
            f"| {used['pss_slope_mib_per_hour']:+.2f} | {spreads} | {used['cpu_share']:.3f} |"
        )
    lines += ["", "| log | lines a minute, mean | most in a minute |", "|---|---|---|"]
    for name, rate in results["log_lines_per_minute"].items():
        lines.append(f"| {name} | {rate['mean']:.2f} | {rate['most']} |")
    return "\n".join(lines)


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the slope of the line that fits best by least squares; 0 for a single point."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    if spread == 0:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "first": round(values[0], 1), "last": round(values[-1], 1),
        "least": round(min(values), 1), "most": round(max(values), 1),
    }  # fmt: skip


def _per_minute(counts: Sequence[tuple[float, int]]) -> dict[str, float]:
    minutes: Counter[int] = Counter()
    before = 0
    for at, lines in counts:
        minutes[int(at // 60)] += lines - before
        before = lines
    return {"mean": before / max(counts[-1][0] / 60, 1 / 60), "most": max(minutes.values())}
