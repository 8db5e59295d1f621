"""A lineage as a tree of rows with columns, old closed shards left out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardline.cli.output import duration, printable
from shardline.observation.names import short_shard_id, short_worker_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from shardline.observation.snapshot import ShardView

FOLD_ABOVE = 40
"""Above this number, closed shards are left out unless one of their children is current."""

_NARROW = 110
"""On a narrower terminal shard ids are shortened, so that every column fits."""

_STYLES = {
    "open": "green",
    "readable": "green",
    "halted": "red",
    "waiting": "yellow",
    "undiscovered": "magenta",
    "closed": "dim",
    "drained": "dim",
    "trimmed": "dim",
}
_PAST = frozenset({"closed", "drained", "trimmed"})


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tree."""

    guide: str
    view: "ShardView"
    note: str = ""
    again: bool = False
    """True for a merged shard that was already drawn under its other parent."""


def render(
    views: "Sequence[ShardView]",
    now: float,
    console: "Console",
    *,
    with_app: bool,
    show_all: bool,
) -> None:
    """Print the tree and a summary line."""
    from rich.table import Table
    from rich.text import Text

    shown = list(views) if show_all else shown_views(views)
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    headers = ["SHARD", "STATE", "HASH", "AGE"]
    headers += ["OWNER", "EPOCH", "LAG"] if with_app else []
    for header in headers:
        right = header in {"HASH", "AGE", "EPOCH", "LAG"}
        table.add_column(header, justify="right" if right else "left", no_wrap=True)
    narrow = console.width < _NARROW
    for row in rows_of(shown):
        view = row.view
        style = "" if row.again else _STYLES.get(view.state, "")
        name = Text(row.guide, style="dim").append(
            printable(short_shard_id(view.id) if narrow else view.id), style=style
        )
        if row.again:
            table.add_row(name, Text(row.note, style="dim"))
            continue
        age = None if view.opened_at is None else now - view.opened_at
        cells: list[str | Text] = [
            name,
            Text(_state(row), style=style),
            _share(view.share),
            duration(age),
        ]
        if with_app:
            owner = printable(short_worker_name(view.owner)) if view.owner else "–"
            epoch = "–" if view.epoch is None else str(view.epoch)
            cells += [owner, epoch, duration(view.lag_seconds)]
        table.add_row(*cells)
    if shown:
        console.print(table)
    console.print(Text(summary(views, len(shown)), style="dim"))


def shown_views(views: "Sequence[ShardView]") -> "list[ShardView]":
    """Return the shards to show: of many, those that are current, and their parents."""
    if len(views) <= FOLD_ABOVE:
        return list(views)
    current = {view.id for view in views if view.state not in _PAST}
    parents_of_current = {p for view in views if view.id in current for p in view.parents}
    return [view for view in views if view.id in current or view.id in parents_of_current]


def rows_of(views: "Sequence[ShardView]") -> "Iterator[Row]":
    """Yield the rows of the tree from its roots; a merged shard is drawn under its first parent."""
    by_id = {view.id: view for view in views}
    children: dict[str, list[str]] = {}
    for view in views:
        for parent in view.parents:
            children.setdefault(parent, []).append(view.id)
    roots = [view.id for view in views if not any(parent in by_id for parent in view.parents)]
    drawn: set[str] = set()
    stack = [(root, "", "") for root in reversed(roots)]
    while stack:
        shard_id, guide, indent = stack.pop()
        view = by_id[shard_id]
        if shard_id in drawn:
            yield Row(guide, view, note="merged, see above", again=True)
            continue
        drawn.add(shard_id)
        yield Row(guide, view, note=_other_parents(view, by_id))
        below = children.get(shard_id, [])
        for number, child in reversed(list(enumerate(below))):
            last = number == len(below) - 1
            stack.append(
                (child, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  "))
            )


def summary(views: "Sequence[ShardView]", shown: int) -> str:
    """Return the number of shards by state, and how many are left out."""
    counts: dict[str, int] = {}
    for view in views:
        counts[view.state] = counts.get(view.state, 0) + 1
    parts = [f"{count} {state}" for state, count in sorted(counts.items())]
    left_out = len(views) - shown
    if left_out:
        parts.append(f"{left_out} old closed ones not shown (--all)")
    return f"{len(views)} shards: " + ", ".join(parts) if views else "no shards"


def _other_parents(view: "ShardView", by_id: "Mapping[str, ShardView]") -> str:
    if len(view.parents) < 2:
        return ""
    under = next((parent for parent in view.parents if parent in by_id), view.parents[0])
    others = [p for p in view.parents if p != under and p not in view.waits_for]
    return "also from " + " and ".join(map(short_shard_id, others)) if others else ""


def _state(row: Row) -> str:
    view = row.view
    parts = [view.state]
    if view.waits_for and view.state == "waiting":
        parts.append(
            "for " + ", ".join(printable(short_shard_id(shard_id)) for shard_id in view.waits_for)
        )
    elif view.closed and view.state == "readable":
        parts.append("(closed)")
    if row.note:
        parts.append(f"({printable(row.note)})")
    return " ".join(parts)


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
