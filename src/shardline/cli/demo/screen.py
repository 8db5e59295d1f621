"""Where the demo is shown: live on a terminal, as plain lines in a file, as JSON for programs."""

import time
from typing import TYPE_CHECKING, Any, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from shardline.cli.demo.picture import Picture, draw
from shardline.cli.output import print_json_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.cli.demo.outcome import Outcome
    from shardline.observation.snapshot import Event


class Screen(Protocol):
    """Shows pictures while it is entered, then the outcome."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...

    def show(self, picture: Picture) -> None:
        """Show what is so now, or what is new since the last time."""

    def end(self, outcome: "Outcome") -> None:
        """Show what came of it."""

    def keep(self, page: str) -> None:
        """Show the address under which the page stays."""


def screen_for(*, as_json: bool) -> Screen:
    """Return what suits the output."""
    if as_json:
        return _JsonLines()
    console = Console(highlight=False, soft_wrap=False)
    live = console.is_terminal and not console.is_dumb_terminal
    return _Terminal(console) if live else _PlainLines(console)


class _Lines:
    """Shows each event once."""

    def __init__(self) -> None:
        self._began_at = time.time()
        self._shown: set[Event] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def _fresh(self, picture: Picture) -> "Iterator[tuple[float, Event]]":
        for event in picture.snapshot.events if picture.snapshot else ():
            if event not in self._shown:
                self._shown.add(event)
                yield max(0.0, event.at - self._began_at), event


class _JsonLines(_Lines):
    def show(self, picture: Picture) -> None:
        if not self._shown:
            print_json_line(event="started", page=picture.page)
        for seconds, event in self._fresh(picture):
            print_json_line(
                event=event.kind.value,
                seconds=round(seconds, 1),
                text=event.text,
                shard_ids=event.shard_ids,
                written=picture.written,
                read=picture.read,
            )

    def end(self, outcome: "Outcome") -> None:
        print_json_line(event="verdict", **outcome.to_json())

    def keep(self, page: str) -> None:
        print_json_line(event="keeping", page=page)


class _PlainLines(_Lines):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def show(self, picture: Picture) -> None:
        for seconds, event in self._fresh(picture):
            self._console.print(f"{seconds:5.1f} s  {event.text}", markup=False, soft_wrap=True)

    def end(self, outcome: "Outcome") -> None:
        _print_outcome(self._console, outcome)

    def keep(self, page: str) -> None:
        _print_keeping(self._console, page)


class _Terminal:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_at = time.time()
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def show(self, picture: Picture) -> None:
        size: Any = self._console.size  # asked for each time: a terminal changes its size
        self._live.update(draw(picture, self._began_at, size.width, size.height), refresh=True)

    def end(self, outcome: "Outcome") -> None:
        _print_outcome(self._console, outcome)

    def keep(self, page: str) -> None:
        _print_keeping(self._console, page)


def _print_outcome(console: Console, outcome: "Outcome") -> None:
    table = Table(show_header=False, min_width=46, border_style="dim")
    table.add_column()
    table.add_column(justify="right")
    for name, figure, as_promised in outcome.rows():
        table.add_row(name, Text(figure, style="bold" if as_promised else "bold red"))
    console.print(table)
    kept = outcome.verdict.kept
    judged = "✓ The promise was kept" if kept else "✗ THE PROMISE WAS BROKEN"
    console.print(Text(judged, style="bold green" if kept else "bold red"), end="")
    console.print(Text(f", in {outcome.seconds:.0f} s. Nothing was staged."))
    for example in outcome.verdict.examples:
        console.print(Text(example, style="red"), soft_wrap=True)


def _print_keeping(console: Console, page: str) -> None:
    console.print(Text(f"The page goes on at {page} until Ctrl-C."), soft_wrap=True)
