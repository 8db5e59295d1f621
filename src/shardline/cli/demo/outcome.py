"""What came of the demo: the checker's verdict and what was measured, for people and programs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardline.cli.output import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.core.promise import Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of the demo."""

    verdict: "Verdict"
    reshards: int
    fail_over_seconds: float | None
    clean_stop_seconds: float
    seconds: float

    def rows(self) -> "Iterator[tuple[str, str, bool]]":
        """Return the lines of a table: a name, a figure, and whether that is as promised."""
        verdict = self.verdict
        yield "written", f"{verdict.written:,}", True
        yield "read", f"{verdict.delivered:,}", True
        yield "lost", f"{verdict.lost:,}", verdict.lost == 0
        yield "out of order", f"{verdict.out_of_order:,}", verdict.out_of_order == 0
        yield "repeated after the kill", f"{verdict.repeated:,}", True
        yield "splits and merges survived", str(self.reshards), True
        yield "fail-over after kill -9", duration(self.fail_over_seconds), True
        yield "clean stop of a worker", duration(self.clean_stop_seconds), True

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        verdict = self.verdict
        return {
            "kept": verdict.kept,
            "written": verdict.written,
            "read": verdict.delivered,
            "lost": verdict.lost,
            "out_of_order": verdict.out_of_order,
            "repeated": verdict.repeated,
            "breaches": {breach.value: count for breach, count in verdict.breaches.items()},
            "examples": list(verdict.examples),
            "reshards": self.reshards,
            "fail_over_seconds": _rounded(self.fail_over_seconds),
            "clean_stop_seconds": _rounded(self.clean_stop_seconds),
            "seconds": _rounded(self.seconds),
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
