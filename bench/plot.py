"""The figures as a picture: a bar for each ratio, a line for its spread, a mark for its target."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.figures import Figure

_ROW: Final = 20
_LABEL_WIDTH: Final = 470
_BAR_WIDTH: Final = 420
_WIDTH: Final = _LABEL_WIDTH + _BAR_WIDTH + 110
_COLOURS: Final = {True: "#2f8f5b", False: "#c4483d", None: "#5b7fa6"}


def draw(results: Mapping[str, Sequence[Figure]], subtitle: str) -> str:
    """Return an SVG of all ratios, on one logarithmic scale: 1 is what it is compared with."""
    ratios = [f for figures in results.values() for f in figures if f.unit == "×" and f.rounds]
    top = max((max(figure.rounds) for figure in ratios), default=10.0)
    bottom = min((min(figure.rounds) for figure in ratios), default=1.0)
    low, high = math.floor(math.log10(min(bottom, 0.5))), math.ceil(math.log10(max(top, 10)))

    def x(value: float) -> float:
        share = (math.log10(max(value, 10**low)) - low) / (high - low)
        return _LABEL_WIDTH + share * _BAR_WIDTH

    lines: list[str] = []
    y = 64
    for name, figures in results.items():
        shown = [figure for figure in figures if figure.unit == "×" and figure.rounds]
        if not shown:
            continue
        lines.append(f'<text x="12" y="{y + 14}" class="group">{escape(name)}</text>')
        y += _ROW + 4
        for figure in shown:
            lines += _bar(figure, y, x)
            y += _ROW
        y += 10
    axis = [
        f'<line x1="{x(10.0**power):.1f}" x2="{x(10.0**power):.1f}" y1="52" y2="{y}" '
        f'class="{"one" if power == 0 else "grid"}"/>'
        f'<text x="{x(10.0**power):.1f}" y="48" class="tick">{10.0**power:g} ×</text>'
        for power in range(low, high + 1)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 12}" '
            f'viewBox="0 0 {_WIDTH} {y + 12}" role="img" aria-label="Benchmark ratios">',
            "<style>text{font:12px system-ui,sans-serif;fill:#222}.title{font-size:16px;"
            "font-weight:600}.group{font-weight:600}.tick{text-anchor:middle;fill:#666}.label{"
            "text-anchor:end}.grid{stroke:#ddd}.one{stroke:#888}.spread{stroke:#222;"
            "stroke-width:1.5}.target{stroke:#e0a100;stroke-width:3}</style>",
            f'<rect width="{_WIDTH}" height="{y + 12}" fill="#fff"/>',
            '<text x="12" y="24" class="title">How many times faster than what stands behind the '
            "bar's name</text>",
            f'<text x="12" y="42" fill="#666">{escape(subtitle)}</text>',
            *axis,
            *lines,
            "</svg>",
        ]
    )


def _bar(figure: Figure, y: int, place: Callable[[float], float]) -> list[str]:
    start, end = sorted((place(1.0), place(figure.median)))
    middle = y + _ROW / 2 - 2
    drawn = [
        f'<text x="{_LABEL_WIDTH - 8}" y="{y + 12}" class="label">'
        f"{escape(figure.what)} ⁄ {escape(figure.against)}</text>",
        f'<rect x="{start:.1f}" y="{y + 1}" width="{end - start:.1f}" height="{_ROW - 6}" '
        f'fill="{_COLOURS[figure.met]}"/>',
        f'<line x1="{place(min(figure.rounds)):.1f}" x2="{place(max(figure.rounds)):.1f}" '
        f'y1="{middle}" y2="{middle}" class="spread"/>',
        f'<text x="{place(max(figure.rounds)) + 6:.1f}" y="{y + 12}">{figure.median:.3g} ×</text>',
    ]
    if figure.target is not None:
        at = place(figure.target)
        drawn.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y}" y2="{y + _ROW - 4}" class="target"/>'
        )
    return drawn
