"""Draws the demo at one moment, in the room that there is: lineage, workers, what happened."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from shardline.cli.output import duration
from shardline.cli.tree import Row, rows_of
from shardline.observation.names import short_shard_id, short_worker_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shardline.observation.snapshot import Event, ShardView, Snapshot

STEPS: Final = ("start Spark", "reshard", "kill -9", "reshard again", "catch up", "stop")
COLOURS: Final = {"ada": "cyan", "grace": "magenta"}
"""Red, green and yellow are left to what is wrong, well or waiting."""

_SIDE_BY_SIDE: Final = 120
"""From this width on, what happened stands beside the lineage and not below it."""
_LINES_AROUND: Final = 10
"""Taken by everything but the shards and the events: heads, frames, the page's address."""
_FEWEST_EVENTS: Final = 4
_MOST_EVENTS: Final = 14
_BAR_CELLS: Final = 12


@dataclass
class Picture:
    """What is known at one moment."""

    seconds: float = 0.0
    step: int = 0
    written: int = 0
    read: int = 0
    records_per_second: float = 0.0
    shard_rates: "Mapping[str, float]" = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    """What each of them does, in a word."""
    page: str = ""
    snapshot: "Snapshot | None" = None


def draw(picture: Picture, began_at: float, width: int, height: int) -> Group:
    """Draw all of it; on a small terminal, finished shards and older events are left out."""
    shards = picture.snapshot.shards if picture.snapshot else ()
    events = picture.snapshot.events if picture.snapshot else ()
    room = max(height - _LINES_AROUND, 8)
    beside = width >= _SIDE_BY_SIDE
    rows = fitting(shards, room if beside else room - _FEWEST_EVENTS)
    parts: list[RenderableType] = [_steps(picture, width), _figures(picture), _workers(picture), ""]
    lineage = _lineage(rows, len(shards), picture, wide=beside)
    most = len(rows) + 1 if beside else min(_MOST_EVENTS, room - len(rows))
    happened = _happened(events[-max(most, _FEWEST_EVENTS) :], began_at)
    if beside:
        grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
        grid.add_column(ratio=5)
        grid.add_column(ratio=4)
        grid.add_row(lineage, happened)
        parts.append(grid)
    else:
        parts += [lineage, happened]
    if picture.page:
        parts.append(Text.assemble(("the same as a page: ", "dim"), (picture.page, "underline")))
    return Group(*parts)


def fitting(shards: "Sequence[ShardView]", most: int) -> list[Row]:
    """Return the tree's rows, without old finished shards where all of them are too many."""
    working = {shard.id for shard in shards if shard.state != "drained"}
    parents = {parent for shard in shards if shard.id in working for parent in shard.parents}
    rows = list(rows_of(shards))
    for kept in (working | parents, working):
        if len(rows) > most:
            rows = list(rows_of([shard for shard in shards if shard.id in kept]))
    return rows[:most]


def _steps(picture: Picture, width: int) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for number, step in enumerate(STEPS):
        if number:
            line.append(" › " if width >= _SIDE_BY_SIDE else " ", style="dim")
        if number == picture.step:
            line.append(f" {step} ", style="reverse bold")
        elif number < picture.step:
            line.append(f"✓ {step}", style="green")
        else:
            line.append(step, style="dim")
    return line.append(f"  {picture.seconds:.0f} s", style="dim")


def _figures(picture: Picture) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for name, figure in (
        ("written", f"{picture.written:,}"),
        ("read", f"{picture.read:,}"),
        ("unread", f"{max(0, picture.written - picture.read):,}"),
        ("per second", f"{picture.records_per_second:,.0f}"),
    ):
        line.append(f"{name} ", style="dim").append(f"{figure:<8} ", style="bold")
    return line


def _workers(picture: Picture) -> Text:
    held: dict[str, int] = {}
    for shard in picture.snapshot.shards if picture.snapshot else ():
        if shard.owner:
            name = short_worker_name(shard.owner)
            held[name] = held.get(name, 0) + 1
    line = Text(no_wrap=True, overflow="ellipsis")
    for name, doing in picture.workers.items():
        count = held.get(name, 0)
        shards = "1 shard" if count == 1 else f"{count} shards"
        line.append(f"■ {name} ", style=COLOURS.get(name, ""))
        line.append(f"{doing}, holds {shards}   ", style="red" if doing == "killed" else "dim")
    return line


def _lineage(rows: "Sequence[Row]", known: int, picture: Picture, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    table.add_column("shard", no_wrap=True)
    table.add_column("state", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("worker", no_wrap=True)
    table.add_column("events/s", no_wrap=True, justify="left" if wide else "right")
    table.add_column("lag", no_wrap=True, justify="right")
    fastest = max(picture.shard_rates.values(), default=0.0)
    for row in rows:
        table.add_row(*_cells(row, picture, fastest if wide else 0.0))
    folded = known - len({row.view.id for row in rows})
    if folded:
        table.add_row(Text(f"+ {folded} finished", style="dim"))
    return table


def _cells(row: Row, picture: Picture, fastest: float) -> tuple[Text, ...]:
    view = row.view
    name = Text(row.guide, style="dim")
    if row.again:
        return name.append(short_shard_id(view.id), style="dim"), Text(row.note, style="dim")
    state, style = _state(view)
    if row.note:
        state += f", {row.note}"
    worker = short_worker_name(view.owner) if view.owner else ""
    colour = COLOURS.get(worker, "")
    finished = view.state == "drained"
    rate = picture.shard_rates.get(view.id, 0.0) if worker and not finished else 0.0
    name.append(short_shard_id(view.id), style="dim" if finished else colour or "bold")
    speed = Text(f"{rate:5,.0f}" if rate else "")
    if fastest and speed:
        speed.append(" " + "▬" * max(1, round(_BAR_CELLS * rate / fastest)), style=colour)
    lag = "" if finished or view.lag_seconds is None else duration(view.lag_seconds)
    return (
        name,
        Text(state, style=style),
        Text(worker if not finished else "", style=colour),
        speed,
        Text(lag),
    )


def _state(view: "ShardView") -> tuple[str, str]:
    if view.state == "drained":
        return "read to its end", "dim"
    if view.waits_for:
        return f"waits for {' and '.join(map(short_shard_id, view.waits_for))}", "yellow"
    if view.closed:
        return "closed, its rest is read", "yellow"
    if view.owner is None:
        return "free", "yellow"
    return "reading", "green"


def _happened(events: "Sequence[Event]", began_at: float) -> Panel:
    lines = [
        Text.assemble(
            (f"{max(0.0, event.at - began_at):4.0f} s  ", "dim"),
            (event.text, "red" if event.text.startswith("kill -9") else ""),
        )
        for event in events
    ]
    text = Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
    return Panel(text, title="what happened", border_style="dim")
