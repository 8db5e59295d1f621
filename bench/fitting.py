"""Whether a cost grows on a straight line: slope, where it starts, and how well the line fits."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence


def fit(
    what: str, points: Sequence[tuple[float, float]], unit: str, by: str, by_size: float
) -> Figure:
    """Fit a line to what was measured, all rounds at once; the figure is R².

    Where nearly nothing depends on the size, there is no line to find and R² says nothing: the
    slope does.
    """
    if len({x for x, _ in points}) < 3:
        return Figure(what, "a straight line", (), note="FAILED: fewer than three sizes were read")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    slope, intercept = statistics.linear_regression(xs, ys)
    r_squared = statistics.correlation(xs, ys) ** 2 if len(set(ys)) > 1 else 1.0
    line = f"{intercept:.2f} {unit} + {slope * by_size:.3f} {unit} a {by}"
    return Figure(what, "a straight line", (r_squared,), "R²", note=line)
