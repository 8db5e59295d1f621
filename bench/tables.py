"""The figures as tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.figures import Figure

_COLOURS = {True: "green", False: "red", None: "default"}


def table_of(title: str, command: str, figures: Sequence[Figure], error: str | None) -> Table:
    """Return all figures of one bench."""
    table = Table(title=f"{title}\n[dim]{command}[/dim]", title_justify="left", expand=False)
    for heading in ("what", "median", "spread", "against", "wanted", "note"):
        table.add_column(heading, justify="right" if heading in ("median", "spread") else "left")
    if error is not None:
        table.add_row("[red]FAILED[/red]", "", "", "", "", escape(error))
    for figure in figures:
        if not figure.rounds:
            note = f"[red]{escape(figure.note)}[/red]"
            table.add_row(escape(figure.what), "–", "", escape(figure.against), "", note)
            continue
        table.add_row(
            escape(figure.what),
            _median(figure),
            _spread(figure),
            escape(figure.against),
            figure.wanted + (" [red]MISSED[/red]" if figure.met is False else ""),
            escape(figure.note),
        )
    return table


def targets_of(results: Mapping[str, Sequence[Figure]], errors: Mapping[str, str]) -> Table:
    """Return every figure that has a target: met, or what holds it back."""
    table = Table(title="What was wanted", title_justify="left", expand=False)
    for heading in ("bench", "what", "against", "wanted", "median", "spread", ""):
        table.add_column(heading, justify="right" if heading in ("median", "spread") else "left")
    for name, figures in results.items():
        for figure in figures:
            if figure.met is None:
                continue
            held_back = escape(figure.held_back or "not known yet")
            table.add_row(
                name,
                escape(figure.what),
                escape(figure.against),
                figure.wanted,
                _median(figure),
                _spread(figure),
                "[green]met[/green]" if figure.met else f"[red]MISSED[/red]: {held_back}",
            )
    for name, error in errors.items():
        table.add_row(name, "[red]FAILED[/red]", "", "", "", "", escape(error))
    return table


def _median(figure: Figure) -> str:
    colour = _COLOURS[figure.met]
    return f"[{colour}]{figure.median:,.3g} {figure.unit}[/{colour}]"


def _spread(figure: Figure) -> str:
    return f"{min(figure.rounds):,.3g} – {max(figure.rounds):,.3g}"
