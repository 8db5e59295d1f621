"""What the demo shows: a live picture on a terminal, plain lines into a file."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from shardline.core.promise import Verdict
    from shardline.dashboard.snapshot import ShardView, Snapshot

_COLOURS = ("cyan", "magenta", "yellow", "green", "blue")
_SHARDS_SHOWN = 14


@dataclass
class Picture:
    """What is known at one moment."""

    written: int = 0
    read: int = 0
    records_per_second: float = 0.0
    phase: str = "starting"
    page: str = ""
    snapshot: "Snapshot | None" = None
    colours: dict[str, str] = field(default_factory=dict)


class Screen:
    """Shows the demo. `say` notes what just happened; `show` draws the rest."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._began = time.monotonic()
        self._happened: deque[tuple[float, str]] = deque(maxlen=8)
        self._picture = Picture()
        self._live = Live(console=self._console, auto_refresh=False) if self._is_live else None

    @property
    def _is_live(self) -> bool:
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        if self._live:
            self._live.update("", refresh=True)
            self._live.stop()

    def say(self, text: str) -> None:
        """Note what just happened."""
        seconds = time.monotonic() - self._began
        self._happened.append((seconds, text))
        if self._live is None:
            self._console.print(f"{seconds:5.1f} s  {text}", markup=False, soft_wrap=True)
        else:
            self.show(self._picture)

    def show(self, picture: Picture) -> None:
        """Draw the picture anew."""
        self._picture = picture
        if self._live:
            self._live.update(self._draw(picture), refresh=True)

    def verdict(self, verdict: "Verdict", rows: list[tuple[str, str]]) -> None:
        """Print the verdict as a table."""
        table = Table(title="Verdict", title_style="bold", show_header=False, min_width=46)
        table.add_column(style="dim")
        table.add_column(justify="right")
        for name, value in rows:
            table.add_row(name, value)
        colour = "green" if verdict.kept else "red"
        judged = "the promise was kept" if verdict.kept else "THE PROMISE WAS BROKEN"
        table.add_section()
        table.add_row("", Text(judged, style=f"bold {colour}"))
        self._console.print(table)
        for example in verdict.examples:
            self._console.print(example, markup=False)

    def _draw(self, picture: Picture) -> Group:
        head = Text.assemble(
            (f" {picture.phase} ", "reverse"),
            f"  written {picture.written:,}  read {picture.read:,}  "
            f"{picture.records_per_second:,.0f}/s  behind {picture.written - picture.read:,}",
        )
        happened = Text("\n").join(
            Text(f"{seconds:5.1f} s  {text}", overflow="ellipsis", no_wrap=True)
            for seconds, text in self._happened
        )
        parts: list[RenderableType] = [
            head,
            _shards(picture),
            Panel(happened, title="what happened", border_style="dim"),
        ]
        if picture.page:
            parts.append(Text(f"the same as a page: {picture.page}", style="dim"))
        return Group(*parts)


def _shards(picture: Picture) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    for title in ("shard", "from", "state", "worker", "epoch", "lag"):
        table.add_column(title, no_wrap=True, overflow="ellipsis", header_style="dim")
    shards = picture.snapshot.shards if picture.snapshot else ()
    live = [shard for shard in shards if shard.state != "drained"][-_SHARDS_SHOWN:]
    for shard in live:
        table.add_row(*_row(shard, picture))
    drained = sum(shard.state == "drained" for shard in shards)
    if drained:
        table.add_row(Text(f"{drained} shards drained", style="dim"))
    return table


def _row(shard: "ShardView", picture: Picture) -> tuple[Text, ...]:
    worker = (shard.owner or "").rpartition("/")[0] or "–"
    if worker != "–" and worker not in picture.colours:
        picture.colours[worker] = _COLOURS[len(picture.colours) % len(_COLOURS)]
    state = (
        f"waits for {', '.join(map(_short, shard.waits_for))}"
        if shard.waits_for
        else ("closing" if shard.closed else shard.state)
    )
    lag = "–" if shard.lag_seconds is None else f"{shard.lag_seconds:.1f} s"
    return (
        Text(_short(shard.id)),
        Text(", ".join(map(_short, shard.parents)) or "–", style="dim"),
        Text(state, style="yellow" if shard.waits_for else ""),
        Text(worker, style=picture.colours.get(worker, "dim")),
        Text(str(shard.epoch % 1_000_000) if shard.epoch else "–", style="dim"),
        Text(lag),
    )


def _short(shard_id: str) -> str:
    return shard_id.replace("shardId-", "").lstrip("0") or "0"
