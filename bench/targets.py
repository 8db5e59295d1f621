"""What good looks like: each target with its figure, and whether it is met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LEASE_SECONDS: Final = 10.0


class Found(NamedTuple):
    """The figure of a target."""

    figure: str
    met: bool


class Target(NamedTuple):
    """What is wanted, and what usually holds it back."""

    wanted: str
    find: Callable[[Mapping[str, Any]], Found | None]
    holds_back: str


def rows(results: Mapping[str, Any]) -> list[list[str]]:
    """Return target, figure, and "met" or what holds it back; "–" for what was not measured."""
    lines = []
    for target in TARGETS:
        found = target.find(results["parts"])
        if found is None:
            lines.append([target.wanted, "–", "not measured"])
        else:
            lines.append([target.wanted, found.figure, "met" if found.met else target.holds_back])
    return lines


def _share_beside_boto3(name: str, least: float) -> Callable[[Mapping[str, Any]], Found | None]:
    def find(parts: Mapping[str, Any]) -> Found | None:
        ours, theirs = (parts.get("catch_up", {}).get(who, {}) for who in (name, "boto3"))
        shares = [[of.get(n, {}).get("share") for n in ("4", "16")] for of in (ours, theirs)]
        if None in shares[0] + shares[1]:
            return None
        ratios = [a / max(b, 0.001) for a, b in zip(*shares, strict=True)]
        return Found(" / ".join(f"{ratio:.2f}" for ratio in ratios), min(ratios) >= least)

    return find


def _quota(name: str, least: float) -> Callable[[Mapping[str, Any]], Found | None]:
    def find(parts: Mapping[str, Any]) -> Found | None:
        found = parts.get("catch_up", {}).get(name, {})
        shares = [found.get(n, {}).get("share") for n in ("1", "4", "16")]
        if None in shares:
            return None
        return Found(" / ".join(f"{share:.2f}" for share in shares), min(shares) >= least)

    return find


def _full_shards(
    name: str, shards: int, delivered: float, p50: float
) -> Callable[[Mapping[str, Any]], Found | None]:
    def find(parts: Mapping[str, Any]) -> Found | None:
        loads = parts.get("follow", {}).get(name, {}).get("loads", [])
        load = next((each for each in loads if each["shards"] == shards), None)
        if load is None:
            return Found(f"not measured at {shards}", False) if loads else None
        seconds = load["p50_seconds"]
        late = "not half came" if seconds is None else f"p50 {seconds:.2f} s"
        met = load["delivered"] >= delivered and seconds is not None and seconds < p50
        return Found(f"{load['delivered']:.2f} delivered, {late}", met)

    return find


def _times(other: str, factor: int) -> Callable[[Mapping[str, Any]], Found | None]:
    def find(parts: Mapping[str, Any]) -> Found | None:
        both = [parts.get("follow", {}).get(who) for who in ("consumer-process", other)]
        if None in both:
            return None
        ours, theirs = (each["shards"] for each in both)
        more = ["≥ " if each["at_least"] or each["limited_by_writer"] else "" for each in both]
        return Found(f"{more[0]}{ours} to {more[1]}{theirs}", ours >= factor * theirs)

    return find


def _figure(part: str, least: Mapping[str, float]) -> Callable[[Mapping[str, Any]], Found | None]:
    """Return the finder of figures, each by the start of `what against`, none below its least."""

    def find(parts: Mapping[str, Any]) -> Found | None:
        found = {
            f"{each['what']} | {each['against']}": each["median"]
            for each in parts.get(part, {}).get("-", [])
        }
        starts = [_starting(found, start) for start in least]
        medians = [median for median in starts if median is not None]
        if len(medians) < len(least):
            return None
        text = " / ".join(f"{median:.3g} ×" for median in medians)
        return Found(text, all(m >= n for m, n in zip(medians, least.values(), strict=True)))

    return find


def _starting(found: Mapping[str, Any], start: str) -> float | None:
    return next((median for name, median in found.items() if name.startswith(start)), None)


def _at_most(
    values: Callable[[Mapping[str, Any]], Iterable[float | None]], most: float, unit: str
) -> Callable[[Mapping[str, Any]], Found | None]:
    def find(parts: Mapping[str, Any]) -> Found | None:
        found = list(values(parts))
        if not found or None in found:
            return None
        worst = max(each for each in found if each is not None)
        return Found(f"{worst:.2g} {unit}", worst <= most)

    return find


OURS: Final = ("consumer-process", "consumer-spark")


def _kills(parts: Mapping[str, Any]) -> list[float | None]:
    failover = parts.get("failover", {})
    return [failover[who]["kill"]["silence_seconds"] for who in OURS if who in failover]


def _deploys(parts: Mapping[str, Any]) -> Found | None:
    found = [parts["failover"][who]["deploy"] for who in OURS if who in parts.get("failover", {})]
    if not found:
        return None
    silence = max(each["silence_seconds"] for each in found)
    repeats = sum(each["repeats"] for each in found)
    return Found(f"{silence:.1f} s, {repeats:,} repeats", silence <= 2 and not repeats)


def _lost(parts: Mapping[str, Any]) -> Found | None:
    found = [parts["failover"][who] for who in OURS if who in parts.get("failover", {})]
    if not found:
        return None
    lost = sum(each[storm]["missing"] for each in found for storm in ("kill", "deploy", "storm"))
    return Found(f"{lost:,}", not lost)


def _owned(parts: Mapping[str, Any]) -> list[float | None]:
    return [
        each["highest"]
        for each in parts.get("leasing", {}).get("-", [])
        if each["against"].startswith("a lease")
    ]


def _first(name: str, field: str) -> Callable[[Mapping[str, Any]], list[float | None]]:
    return lambda parts: [parts.get("delay", {}).get(name, {}).get(field)]


TARGETS: Final = (
    Target(
        "consumer takes ≥ 0.95 of the quota at 1 / 4 / 16 shards",
        _quota("consumer-process", 0.95),
        "the two cores, which service and reader share",
    ),
    Target(
        "source takes ≥ 0.8 of the quota at 1 / 4 / 16 shards",
        _quota("source", 0.8),
        "the two cores, which service, JVM and reader share",
    ),
    Target(
        "backlog at 4 / 16 shards: consumer ≥ 0.95 of the boto3 loop",
        _share_beside_boto3("consumer-process", 0.95),
        "the two cores, which service and reader share",
    ),
    Target(
        "… consumer on Spark ≥ 0.95",
        _share_beside_boto3("consumer-spark", 0.95),
        "the two cores, which service, JVM and reader share",
    ),
    Target(
        "… `next(stream)` ≥ 0.95",
        _share_beside_boto3("stream", 0.95),
        "one order over all shards: the slowest one holds up the others",
    ),
    Target(
        "… source ≥ 0.8",
        _share_beside_boto3("source", 0.8),
        "the two cores, which service, JVM and reader share",
    ),
    Target(
        "consumer follows 16 full shards: ≥ 0.99 delivered, p50 < 0.3 s",
        _full_shards("consumer-process", 16, 0.99, 0.3),
        "the two cores, which writer, service and reader share",
    ),
    Target(
        "source follows 8 full shards: ≥ 0.95 delivered, p50 < 1 s",
        _full_shards("source", 8, 0.95, 1.0),
        "a batch takes as long as Spark needs for it, and a record waits for up to two",
    ),
    Target(
        "as many full shards as the KCL in Java",
        _times("kcl-java", 1),
        "writer and service reach the end of the two cores first",
    ),
    Target(
        "three times as many as KCLPY",
        _times("kclpy", 3),
        "writer and service reach the end of the two cores first",
    ),
    Target(
        "body to Arrow, 10,000 × 100 B in JSON ≥ 30 ×, 1 KB ≥ 12 × botocore",
        _figure("wire", {"JSON, 10,000 × 100 B": 30, "JSON, 10,000 × 1,000 B": 12}),
        "finding the starts of records in JSON",
    ),
    Target(
        "Bloop takes ≥ 5 × the CPU of `next(stream)` and of typed changes",
        _figure(
            "stream",
            {
                "next(stream), 20,000 changes | Bloop": 5,
                "next(stream), typed, 20,000 changes | Bloop": 5,
            },
        ),
        "HTTP: a page of changes costs about the same CPU, whoever asks for it",
    ),
    Target(
        "kill −9: silence of a key < 1.5 lease times (15 s)",
        _at_most(_kills, 1.5 * LEASE_SECONDS, "s"),
        "the others see a dead worker only after a lease time",
    ),
    Target(
        "deploy: handed over within 2 s, nothing repeated",
        _deploys,
        "the new owner takes a released shard at its next look at the table",
    ),
    Target("kill, deploy, reshard storm: nothing lost", _lost, "a bug: please report it"),
    Target(
        "5,000 shards owned within two lease times of a start, a death, a join, a leave",
        _at_most(_owned, 2.0, "lease times"),
        "calls to the lease table, one after the other in each worker",
    ),
    Target(
        "first record within 1.5 s without Spark",
        _at_most(_first("consumer-process", "first_record_seconds"), 1.5, "s"),
        "importing Python's packages in two processes: the keeper and the one that runs user code",
    ),
    Target(
        "first record within 3 s of a warm Spark session",
        _at_most(_first("consumer-spark", "first_record_warm_seconds"), 3.0, "s"),
        "the start of Spark's Python worker, and of the process that runs user code",
    ),
)
