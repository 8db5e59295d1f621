"""Tables in Markdown, made from the results and written between markers of the documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import spread
from bench.contenders import CONTENDERS
from bench.parts.failover import DRAIN_SECONDS
from bench.targets import rows as target_rows
from bench.workload.records import SHARD_RECORDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT: Final = Path(__file__).parent.parent
NONE: Final = "–"
NOT_MEASURED: Final = "*No results of this build are kept yet: `make bench` makes them.*"
HEADINGS: Final = (
    "two cores, limits on",
    "full shards followed",
    "share of quota at 1 / 4 / 16 / 64 shards",
    "put → consumer, trickle, p50 / p99",
    "at half load, p50 / p99",
    "CPU s a million",
    "memory",
    "first record",
    "longest silence of a key: kill −9 / deploy / reshards",
    "repeats",
    f"missing after {DRAIN_SECONDS:.0f} s",
)
HEADLINE: Final = ("follow", "catch_up", "delay", "failover")
STORMS: Final = {"kill": "kill −9", "deploy": "deploy", "storm": "reshard storm"}
FLEETS: Final = ("10", "100", "1000", "10000")


def headline(results: Mapping[str, Any]) -> str:
    """Return the table of all contenders."""
    parts, errors = results["parts"], results["errors"]
    rows = []
    for name, contender in CONTENDERS.items():
        of = {part: parts.get(part, {}).get(name) for part in HEADLINE}
        failed = [errors[part][name] for part in of if name in errors.get(part, {})]
        if any(of.values()):
            cells = [*_follow(of["follow"]), *_catch_up(of["catch_up"])]
            cells += [*_delay(of["delay"], of["failover"]), *_storms(of["failover"])]
            rows.append([contender.title, *cells])
        elif failed:
            rows.append([contender.title, f"did not run: {failed[0]}", *[""] * 9])
    return _table(HEADINGS, rows)


def failover(results: Mapping[str, Any]) -> str:
    """Return the table of what a kill, a deploy and reshards do."""
    rows = [
        [CONTENDERS[name].title, *(_storm(found.get(storm)) for storm in STORMS)]
        for name, found in results["parts"].get("failover", {}).items()
    ]
    titles = [f"{title}: silence of a key / repeats / missing" for title in STORMS.values()]
    return _table(["", *titles], rows)


def cost(results: Mapping[str, Any]) -> str:
    """Return the table of calls and money."""
    found = results["parts"].get("cost", {}).get("-")
    if not found:
        return NOT_MEASURED
    rows = [
        [title, *(_number(found[fleet].get(field)) for fleet in FLEETS if fleet in found)]
        for field, title in found["titles"].items()
    ]
    sizes = [f"{int(fleet):,} shards" for fleet in FLEETS if fleet in found]
    return _table(["a shard and hour", *sizes], rows)


def figures(results: Mapping[str, Any], part: str) -> str:
    """Return the table of a part that is measured by itself."""
    rows = [
        [each["what"], each["against"], f"{each['median']:.3g} {each['unit']}", _spread(each)]
        for each in results["parts"].get(part, {}).get("-", [])
        if each["median"] is not None
    ]
    return _table(["what", "against", "median", "lowest to highest"], rows)


def errors(results: Mapping[str, Any]) -> str:
    """Return the table of the pieces that could not be measured, each with its error."""
    rows = [
        [part, CONTENDERS[name].title if name in CONTENDERS else NONE, error]
        for part, found in results["errors"].items()
        for name, error in found.items()
    ]
    return _table(["part", "contender", "error"], rows) if rows else "No piece failed."


def sizing(results: Mapping[str, Any]) -> str:
    """Return the table of what a core carries: the reader alone, without writer and service."""
    rows = []
    for name, contender in CONTENDERS.items():
        delay = results["parts"].get("delay", {}).get(name)
        loads = results["parts"].get("follow", {}).get(name, {}).get("loads", [])
        most = results["parts"].get("follow", {}).get(name, {}).get("shards")
        best = next((load for load in loads if load["shards"] == most), None)
        found = [load for load in (delay and delay["full"], best) if load]
        if found:
            cells = [_core(load) for load in found] + [NONE] * (2 - len(found))
            rows.append([contender.title, *cells])
    headings = ["a core of the reader carries", "at 4 full shards", "at the most that it followed"]
    return _table(headings, rows)


def _core(load: Mapping[str, Any]) -> str:
    cpu = load["cpu_seconds_per_million"]
    if not cpu:
        return NONE
    share = cpu * SHARD_RECORDS_PER_SECOND / 1e6
    return f"{1 / share:.0f} full shards ({share:.1%} of a core each; {load['shards']} measured)"


def targets(results: Mapping[str, Any]) -> str:
    """Return the table of what is wanted."""
    return _table(["target", "figure", "met, or what holds it back"], target_rows(results))


def agreement(results: Mapping[str, Any]) -> str:
    """Return the table of what figures state, and how the last two whole runs differ."""
    headings = ["figure", "states at least", "how many", "apart in the last two whole runs"]
    return _table(headings, spread.rows(results))


TABLES: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "headline": headline,
    "failover": failover,
    "sizing": sizing,
    "targets": targets,
    "spread": agreement,
    "errors": errors,
    "spark_batch": lambda results: figures(results, "spark_batch"),
    "cost": cost,
    "fan_out": lambda results: figures(results, "fan_out"),
    "leasing": lambda results: figures(results, "leasing"),
    "wire": lambda results: figures(results, "wire"),
    "puts": lambda results: figures(results, "puts"),
    "stream": lambda results: figures(results, "stream"),
    "memory": lambda results: figures(results, "memory"),
}
DOCUMENTS: Final = (ROOT / "README.md", ROOT / "docs" / "performance.md")


def write(results: Mapping[str, Any], documents: Sequence[Path] = DOCUMENTS) -> None:
    """Replace what lies between `<!-- bench:NAME -->` and `<!-- end -->` by the tables."""
    for document in documents:
        text = document.read_text()
        for name, table in TABLES.items():
            start = f"<!-- bench:{name} -->\n"
            before, found, after = text.partition(start)
            if found:
                text = before + start + table(results) + "\n<!-- end -->" + _after(after)
        document.write_text(text)


def _after(text: str) -> str:
    _, found, after = text.partition("<!-- end -->")
    if not found:
        raise ValueError("a marker bench:… lacks its <!-- end -->")
    return after


def line_of(part: str, data: Any) -> str:
    """Return one line about a piece that was measured."""
    if part == "follow":
        return f"full shards followed: {_follow(data)[0]}"
    if part == "catch_up":
        return f"share of the quota: {_catch_up(data)[0]}"
    if part == "delay":
        return " | ".join(f"{h}: {c}" for h, c in zip(HEADINGS[3:8], _delay(data), strict=True))
    if part == "failover":
        return " | ".join(f"{title}: {_storm(data.get(s))}" for s, title in STORMS.items())
    return f"{len(data)} figures"


def _follow(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return [NONE]
    more = "≥ " if found["at_least"] or found["limited_by_writer"] else ""
    return [f"{more}{found['shards']}"]


def _catch_up(found: Mapping[str, Any] | None) -> list[str]:
    shares = [(found or {}).get(shards, {}).get("share") for shards in ("1", "4", "16", "64")]
    return [" / ".join(NONE if share is None else f"{share:.2f}" for share in shares)]


def _delay(found: Mapping[str, Any] | None, failed: Mapping[str, Any] | None = None) -> list[str]:
    """Return five cells; a contender that starts slowly has its first record from `failover`."""
    if found is None:
        return [NONE] * 5
    full, warm = found["full"], found["first_record_warm_seconds"]
    seconds = found["first_record_seconds"]
    if seconds is None:
        seconds = (failed or {}).get("first_record_seconds")
    first = NONE if seconds is None else f"{seconds:.1f} s"
    return [
        _pair(found["trickle"]),
        _pair(found["half"]),
        _number(full["cpu_seconds_per_million"]),
        f"{full['memory_mib']:,.0f} MiB",
        first if warm is None else f"{first} ({warm:.1f} s warm)",
    ]


def _pair(load: Mapping[str, Any]) -> str:
    pair = (load[f"{which}_seconds"] for which in ("p50", "p99"))
    return " / ".join("not all came" if each is None else f"{each:.2f} s" for each in pair)


def _storm(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return NONE
    return f"{found['silence_seconds']:.1f} s / {found['repeats']:,} / {found['missing']:,}"


def _storms(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return [NONE] * 3
    storms = [found[storm] for storm in STORMS if storm in found]
    return [
        " / ".join(f"{each['silence_seconds']:.1f} s" for each in storms),
        " / ".join(f"{each['repeats']:,}" for each in storms),
        " / ".join(f"{each['missing']:,}" for each in storms),
    ]


def _number(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _spread(figure: Mapping[str, Any]) -> str:
    return f"{figure['lowest']:.3g} to {figure['highest']:.3g}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return NOT_MEASURED
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
