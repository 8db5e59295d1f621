"""Tables of shards as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from shardline.core.gaps import place_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.streams.ledger import Ledger

_HEADINGS: Final = ("shard", "parents", "state", "after", "nothing unread before")


def shards_html(caption: str, ledger: Ledger) -> str:
    """Return a table of every shard, each parent before its children."""
    rows = []
    for standing in ledger.lineage().standings.values():
        place = ledger.places.get(standing.shard_id)
        parents = standing.shard.parents if standing.shard is not None else ()
        as_of = place.as_of if place is not None else None
        rows.append(
            (
                standing.shard_id,
                ", ".join(parents),
                standing.state.value,
                "" if place is None else place_text(place.position),
                "" if as_of is None else as_of.isoformat(timespec="seconds"),
            )
        )
    return table_html(caption, _HEADINGS, rows)


def table_html(caption: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; every text in it is escaped."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
