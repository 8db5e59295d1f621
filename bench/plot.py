"""The figures as a picture: what was wanted and how near it came, then everybody beside others.

Each row is a dot for the median and a line for the spread over the rounds, on a logarithmic scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.figures import Figure

_ROW: Final = 21
_MARGIN: Final = 28
_LABEL_WIDTH: Final = 520
_SCALE_WIDTH: Final = 430
_VALUE_WIDTH: Final = 160
_WIDTH: Final = _MARGIN + _LABEL_WIDTH + _SCALE_WIDTH + _VALUE_WIDTH
_COLOURS: Final = {True: "#1f8a5b", False: "#c8452f", None: "#3b6ea8"}
_OWN: Final = ("the simple way",)
"""What is no other but we ourselves: only the targets show it."""
_STYLE: Final = """
text { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #24292f }
.title { font-size: 20px; font-weight: 650 } .panel { font-size: 15px; font-weight: 600 }
.dim { fill: #6e7781 } .group { font-weight: 600 }
.tick { text-anchor: middle; fill: #6e7781; font-size: 11px }
.label { text-anchor: end } .value { font-variant-numeric: tabular-nums; font-weight: 600 }
.grid { stroke: #d8dee4; stroke-dasharray: 2 3 } .one { stroke: #24292f; stroke-width: 1.2 }
"""


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    low: float
    middle: float
    high: float
    value: str
    met: bool | None


def draw(results: Mapping[str, Sequence[Figure]], subtitles: Sequence[str]) -> str:
    """Return an SVG: how near each target came, and all ratios; 1 is what it is held against."""
    targets = {
        name: [row for figure in figures if (row := _target_row(figure))]
        for name, figures in results.items()
    }
    others = {
        name: [row for figure in figures if (row := _ratio_row(figure))]
        for name, figures in results.items()
    }
    drawn = [_text(_MARGIN, 38, "How fast, and beside whom", "title")]
    y = 58
    for subtitle in subtitles:
        drawn.append(_text(_MARGIN, y, subtitle, "dim"))
        y += 17
    for title, hint, panel in (
        ("What was wanted", "times as good as the target: right of the line is met", targets),
        ("Beside others", "how many times faster than what follows the name", others),
    ):
        if any(panel.values()):
            lines, y = _panel(title, hint, panel, y + 24)
            drawn += lines
    drawn.append(_legend(y + 26))
    height = y + 48
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Benchmark figures">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _target_row(figure: Figure) -> _Row | None:
    times = figure.times_target
    if times is None:
        return None
    unit = f" {figure.unit}".rstrip()
    value = f"{figure.median:,.3g}{unit} of {figure.target:,.3g}"
    worst, middle, best = times
    return _Row(_label(figure), worst, middle, best, value, figure.met)


def _ratio_row(figure: Figure) -> _Row | None:
    if (
        figure.unit != "×"
        or figure.at_most
        or figure.against in _OWN
        or not figure.rounds
        or not all(figure.rounds)
    ):
        return None
    value = f"{figure.median:,.3g} ×"
    low, high = min(figure.rounds), max(figure.rounds)
    return _Row(_label(figure), low, figure.median, high, value, figure.met)


def _label(figure: Figure) -> str:
    label = f"{figure.what} / {figure.against}" if figure.against else figure.what
    return label if len(label) <= 84 else f"{label[:82]}…"


def _panel(
    title: str, hint: str, groups: Mapping[str, Sequence[_Row]], y: int
) -> tuple[list[str], int]:
    rows = [row for group in groups.values() for row in group]
    low = math.floor(2 * math.log10(min(0.5, *(row.low for row in rows)))) / 2
    high = math.ceil(2 * math.log10(max(2.0, *(row.high for row in rows)))) / 2

    def x(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return _MARGIN + _LABEL_WIDTH + share * _SCALE_WIDTH

    drawn = [_text(_MARGIN, y + 4, title, "panel"), _text(_MARGIN + 175, y + 4, hint, "dim")]
    top = y + 34
    y = top
    shaded = False
    body = []
    for name, group in groups.items():
        if not group:
            continue
        body.append(_text(_MARGIN, y + 15, name, "group"))
        for row in group:
            if shaded:
                width = _WIDTH - 2 * _MARGIN
                body.append(
                    f'<rect x="{_MARGIN}" y="{y}" width="{width}" height="{_ROW}" '
                    'fill="#f6f8fa" class="band"/>'
                )
            shaded = not shaded
            body += _dot(row, y, x)
            y += _ROW
        y += 8
    for tick in _ticks(low, high):
        kind = "one" if tick == 1 else "grid"
        drawn.append(_text(x(tick), top - 8, f"{tick:g} ×", "tick"))
        body.append(
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top - 3}" y2="{y - 6}" '
            f'class="{kind}"/>'
        )
    body.sort(key=lambda line: 'class="band"' not in line)  # bands lie under all else
    return drawn + body, y


def _ticks(low: float, high: float) -> list[float]:
    steps = (1, 3) if high - low <= 3 else (1,)
    return [
        step * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1)
        for step in steps
        if low <= math.log10(step * 10.0**power) <= high
    ]


def _dot(row: _Row, y: int, x: Callable[[float], float]) -> list[str]:
    middle, colour = y + _ROW / 2, _COLOURS[row.met]
    return [
        _text(_MARGIN + _LABEL_WIDTH - 14, y + 15, row.label, "label"),
        f'<line x1="{x(row.low):.1f}" x2="{x(row.high):.1f}" y1="{middle}" y2="{middle}" '
        f'stroke="{colour}" stroke-width="3" stroke-linecap="round" opacity="0.4"/>',
        f'<circle cx="{x(row.middle):.1f}" cy="{middle}" r="4.5" fill="{colour}"/>',
        _text(_MARGIN + _LABEL_WIDTH + _SCALE_WIDTH + 14, y + 15, row.value, "value"),
    ]


def _legend(y: int) -> str:
    names = {True: "target met", False: "target missed", None: "no target"}
    drawn, x = [], _MARGIN
    for met, colour in _COLOURS.items():
        drawn.append(f'<circle cx="{x + 5}" cy="{y - 4}" r="4.5" fill="{colour}"/>')
        drawn.append(_text(x + 16, y, names[met], "dim"))
        x += 120
    drawn.append(_text(x, y, "dot: median · line: lowest to highest round", "dim"))
    return "".join(drawn)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" class="{kind}">{escape(text)}</text>'
