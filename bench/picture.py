"""One picture: how many full shards each follows, how late records are, what a million costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.sax.saxutils import escape

from bench.contenders import CONTENDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ROW: Final = 30
_TOP: Final = 84
_LABEL: Final = 310
_PANEL: Final = 236
_BAR: Final = 150
_OURS, _OTHERS = "#0969da", "#8c959f"
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-size:16px;font-weight:600}"
    ".d{fill:#59636e;font-size:12px}.h{font-weight:600}"
)


class _Panel(NamedTuple):
    title: str
    better: str
    value: Callable[[Mapping[str, Any], str], float | None]
    shown: Callable[[float], str]
    bound: Callable[[Mapping[str, Any], str], bool] = lambda _, __: False
    """Whether the value is only the least that it can be."""


def _followed(parts: Mapping[str, Any], name: str) -> float | None:
    found = parts.get("follow", {}).get(name)
    return None if found is None else float(found["shards"])


def _is_bound(parts: Mapping[str, Any], name: str) -> bool:
    found = parts["follow"][name]
    return bool(found["at_least"] or found["limited_by_writer"])


def _late(parts: Mapping[str, Any], name: str) -> float | None:
    found = parts.get("delay", {}).get(name)
    return None if found is None else found["half"]["p99_seconds"] or math.inf


def _cpu(parts: Mapping[str, Any], name: str) -> float | None:
    found = parts.get("delay", {}).get(name)
    return None if found is None else found["full"]["cpu_seconds_per_million"]


_PANELS: Final = (
    _Panel("Full shards followed", "longer is better", _followed, lambda v: f"{v:.0f}", _is_bound),
    _Panel("Put → consumer, p99, half load", "shorter is better", _late, lambda v: f"{v:.2f} s"),
    _Panel("CPU seconds a million records", "shorter is better", _cpu, lambda v: f"{v:.0f}"),
)


def draw(results: Mapping[str, Any]) -> str:
    """Return the picture as SVG."""
    parts = results["parts"]
    names = [
        name
        for name in CONTENDERS
        if any(panel.value(parts, name) is not None for panel in _PANELS)
    ]
    width, height = _LABEL + len(_PANELS) * _PANEL + 20, _TOP + _ROW * len(names) + 34
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><style>{_STYLE}</style>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(16, 28, "Kinesis readers on two cores, the service's limits on", "t"),
    ]
    for row, name in enumerate(names):
        ours = CONTENDERS[name].ours
        drawn.append(_text(16, _y(row) + 16, CONTENDERS[name].title, "h" if ours else ""))
    for number, panel in enumerate(_PANELS if names else ()):
        drawn += _panel(panel, _LABEL + number * _PANEL, parts, names)
    note = "Service and writers share the two cores. Records of 1 KB; a full shard is 980 a second."
    if not names:
        drawn.append(_text(16, 54, "No results of this build are kept yet.", "d"))
    drawn.append(_text(16, height - 12, note, "d"))
    return "\n".join([*drawn, "</svg>\n"])


def _panel(panel: _Panel, left: int, parts: Mapping[str, Any], names: list[str]) -> list[str]:
    drawn = [
        _text(left, 54, panel.title, "h"),
        _text(left, 71, panel.better, "d"),
    ]
    values = {name: panel.value(parts, name) for name in names}
    known = [value for value in values.values() if value is not None and value < math.inf]
    most = max(known, default=1.0) or 1.0
    for row, (name, value) in enumerate(values.items()):
        if value is None or value == math.inf:
            why = "not measured" if value is None else "not all came"
            drawn.append(_text(left, _y(row) + 16, why, "d"))
            continue
        length = max(2.0, value / most * _BAR)
        colour = _OURS if CONTENDERS[name].ours else _OTHERS
        drawn.append(
            f'<rect x="{left}" y="{_y(row) + 3}" width="{length:.1f}" height="18" rx="3" '
            f'fill="{colour}"/>'
        )
        shown = ("≥ " if panel.bound(parts, name) else "") + panel.shown(value)
        drawn.append(_text(left + length + 6, _y(row) + 16, shown, ""))
    return drawn


def _y(row: int) -> int:
    return _TOP + row * _ROW


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" class="{kind}">{escape(text)}</text>'
