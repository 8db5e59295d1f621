"""The picture of a soak: memory, descriptors and log lines of each process over the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_WIDTH: Final = 900
_LEFT: Final = 64
_RIGHT: Final = 210
_PANEL: Final = 150
_GAP: Final = 46
_TOP: Final = 62
_COLOURS: Final = ("#0969da", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#57606a", "#cf222e")
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-size:16px;font-weight:600}"
    ".d{fill:#59636e;font-size:12px}.h{font-weight:600}"
    "polyline{fill:none;stroke-width:1.6}line{stroke:#d1d9e0}"
)
_POINTS: Final = 400

Line = list[tuple[float, float]]


class _Panel(NamedTuple):
    title: str
    lines: Callable[[Sequence[Mapping[str, Any]]], dict[str, Line]]


def _of_processes(name: str) -> Callable[[Sequence[Mapping[str, Any]]], dict[str, Line]]:
    def lines(samples: Sequence[Mapping[str, Any]]) -> dict[str, Line]:
        found: dict[str, Line] = {}
        for sample in samples:
            for role, used in sample["processes"].items():
                found.setdefault(role, []).append((sample["at"], used[name]))
        return found

    return lines


def _log_lines(samples: Sequence[Mapping[str, Any]]) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for sample in samples:
        for name, count in sample["log_lines"].items():
            found.setdefault(name, []).append((sample["at"], count))
    return found


_PANELS: Final = (
    _Panel("Memory (PSS), MiB", _of_processes("pss_mib")),
    _Panel("File descriptors", _of_processes("descriptors")),
    _Panel("Threads", _of_processes("threads")),
    _Panel("Log lines since the start", _log_lines),
)


def draw(samples: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> str:
    """Return the picture as SVG."""
    height = _TOP + len(_PANELS) * (_PANEL + _GAP)
    seconds = max(samples[-1]["at"], 1.0)
    roles = list(samples[-1]["processes"])
    colours = {role: _COLOURS[n % len(_COLOURS)] for n, role in enumerate(roles)}
    title = (
        f"Two workers for {seconds / 3600:.1f} h: {results['written']:,} records, "
        f"{results['shards_seen']} shards, {results.get('promises', {}).get('lost', '?')} lost"
    )
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}"><style>{_STYLE}</style>'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 28, title, "t"),
    ]
    for number, panel in enumerate(_PANELS):
        top = _TOP + number * (_PANEL + _GAP)
        drawn += _panel(panel.title, panel.lines(samples), top, seconds, colours)
    for number, role in enumerate(roles):
        used = results["processes"].get(role)
        slope = "" if used is None else f" {used['rss_slope_mib_per_hour']:+.2f} MB/h"
        y = _TOP + 16 + 20 * number
        x = _WIDTH - _RIGHT + 16
        drawn.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colours[role]}"/>')
        drawn.append(_text(x + 16, y, f"{role}{slope}", ""))
    return "\n".join([*drawn, "</svg>\n"])


def _panel(
    title: str, lines: dict[str, Line], top: int, seconds: float, colours: Mapping[str, str]
) -> list[str]:
    most = max((y for line in lines.values() for _, y in line), default=1.0) * 1.05 or 1.0
    width = _WIDTH - _LEFT - _RIGHT
    bottom = top + _PANEL
    drawn = [
        _text(_LEFT, top - 8, title, "h"),
        f'<line x1="{_LEFT}" y1="{bottom}" x2="{_LEFT + width}" y2="{bottom}"/>',
        _text(16, bottom, "0", "d"),
        _text(16, top + 12, f"{most:.0f}", "d"),
        _text(_LEFT, bottom + 15, "0", "d"),
        _text(_LEFT + width - 44, bottom + 15, f"{seconds / 60:.0f} min", "d"),
    ]
    for role, line in lines.items():
        thin = line[:: max(1, len(line) // _POINTS)]
        points = " ".join(
            f"{_LEFT + at / seconds * width:.1f},{bottom - y / most * _PANEL:.1f}" for at, y in thin
        )
        drawn.append(f'<polyline points="{points}" stroke="{colours.get(role, "#57606a")}"/>')
    return drawn


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" class="{kind}">{escape(text)}</text>'
