"""The tree of shards as text."""

from __future__ import annotations

import io

from rich.console import Console

from shardline.cli.tree import FOLD_ABOVE, render, rows_of, shown_views
from shardline.observation.snapshot import ShardView


def view(shard_id: str, *parents: str, state: str = "open", **more: object) -> ShardView:
    closed = state in {"closed", "drained", "trimmed"}
    return ShardView(shard_id, parents, closed, state, **more)  # type: ignore[arg-type]


def drawn(views: list[ShardView], *, width: int = 160, **how: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False)
    options = {"with_app": False, "show_all": False, **how}
    render(views, 1000.0, console, **options)
    return out.getvalue()


def test_a_split_and_a_merge_are_drawn_with_every_shard_once_in_full() -> None:
    views = [
        view("a", state="closed"),
        view("b", state="closed"),
        view("c", "a", state="closed"),
        view("d", "a"),
        view("e", "c", "b"),
    ]
    assert [(row.guide, row.view.id, row.again) for row in rows_of(views)] == [
        ("", "a", False),
        ("├─ ", "c", False),
        ("│  └─ ", "e", False),
        ("└─ ", "d", False),
        ("", "b", False),
        ("└─ ", "e", True),
    ]
    text = drawn(views)
    assert "open (also from b)" in text
    assert "merged, see above" in text
    assert "5 shards: 3 closed, 2 open" in text


def test_a_waiting_shard_says_for_whom_and_an_owned_one_by_whom() -> None:
    views = [
        view("a", state="readable", owner="worker-1/8f3c", epoch=7, lag_seconds=42.0),
        view("b", "a", state="waiting", waits_for=("a",)),
    ]
    text = drawn(views, with_app=True)
    assert "waiting for a" in text
    assert "worker-1" in text
    assert "8f3c" not in text
    assert "42s" in text


def test_a_narrow_terminal_gets_short_ids_and_every_column() -> None:
    views = [
        view("shardId-000000000000", state="readable", owner="billing-host-7f9c/1", epoch=3),
        view(
            "shardId-000000000004", "shardId-000000000000", "shardId-000000000001",
            state="waiting", waits_for=("shardId-000000000000", "shardId-000000000001"),
        ),
    ]  # fmt: skip
    text = drawn(views, width=80, with_app=True)
    assert "LAG" in text.splitlines()[0]
    assert "└─ …004" in text
    assert "waiting for …000, …001" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "shardId-000000000004" in drawn(views, width=160, with_app=True)


def test_without_a_terminal_there_are_no_control_codes_and_hostile_ids_have_none_either() -> None:
    text = drawn([view("a\x1b[31mred\x07")])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\\x1b[31mred" in text


def test_many_shards_fold_to_the_open_ones_and_their_parents() -> None:
    chain = [view("s0", state="closed")]
    chain += [view(f"s{n}", f"s{n - 1}", state="closed") for n in range(1, 300)]
    chain += [view("open", "s299")]
    assert [v.id for v in shown_views(chain)] == ["s299", "open"]
    assert "299 old closed ones not shown (--all)" in drawn(chain)
    assert len(drawn(chain, width=2000, show_all=True).splitlines()) == 303


def test_few_shards_are_never_folded() -> None:
    chain = [view("s0", state="closed")]
    chain += [view(f"s{n}", f"s{n - 1}", state="closed") for n in range(1, FOLD_ABOVE)]
    assert shown_views(chain) == chain


def test_an_unfinished_closed_shard_is_never_folded() -> None:
    many = [view(f"s{n}", state="drained") for n in range(300)] + [view("late", state="readable")]
    assert [v.id for v in shown_views(many)] == ["late"]
