"""The demo's display in the room that there is, and its outcome for programs."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from shardline.cli.demo.outcome import Outcome
from shardline.cli.demo.picture import Picture, draw, fitting
from shardline.cli.demo.read_counts import ReadCounts
from shardline.cli.demo.screen import screen_for
from shardline.cli.demo.workers import Line
from shardline.core.fences import Fence
from shardline.core.promise import Breach, RecordRef, Verdict
from tests.unit.observation.situations import START, Situation


def busy(splits: int = 6) -> Situation:
    """A stream whose first open shard was split again and again, and read behind the splits."""
    situation = Situation(2)
    for number in range(splits):
        shard_id = situation.shard_ids()[0 if number == 0 else -1]
        situation.take(shard_id, "ada/1")
        situation.snapshot()
        situation.split(shard_id)
        situation.snapshot()
        situation.drain(shard_id)
    situation.take(situation.shard_ids()[-1], "grace/2")
    return situation


def picture_of(situation: Situation) -> Picture:
    return Picture(
        seconds=12.5,
        step=1,
        written=1_234_567,
        read=1_200_000,
        records_per_second=99_999,
        shard_rates={situation.shard_ids()[-1]: 812.0},
        workers={"ada": "killed", "grace": "reads"},
        page="http://127.0.0.1:12345/",
        snapshot=situation.snapshot(),
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 50), (100, 30), (160, 45), (240, 60)])
def test_nothing_is_wrapped_cut_or_below_the_terminal(width: int, height: int) -> None:
    console = Console(width=width, height=height, record=True, color_system=None)
    console.print(draw(picture_of(busy()), START, width, height))
    lines = console.export_text().splitlines()
    assert len(lines) < height
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    for needed in ("1,234,567", "grace reads, holds 1 shard", "812", "http://127.0.0.1:12345/"):
        assert needed in text
    assert "stop" in lines[0]
    side_by_side = any("events/s" in line and "what happened" in line for line in lines)
    assert side_by_side == (width >= 120)


def test_where_room_is_short_finished_shards_go_first() -> None:
    shards = busy().snapshot().shards
    assert len(fitting(shards, 100)) == len(shards)
    few = [row.view for row in fitting(shards, 10)]
    assert {view.id for view in few} >= {view.id for view in shards if view.state != "drained"}
    assert len(fitting(shards, 3)) == 3


def test_read_counts_have_each_record_once_and_forget_what_is_long_ago() -> None:
    counts = ReadCounts()
    records = [RecordRef("k", number) for number in range(8)]
    line = Line(0.0, "delivered", "s", "ada", Fence(), records)
    counts.add([line, line], now=100.0)
    assert counts.total == 8
    assert counts.rates(101.0) == {"s": 4.0}
    assert counts.rates(110.0) == {}


def test_as_json_every_event_is_told_once_and_the_verdict_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    situation = busy(1)
    screen = screen_for(as_json=True)
    with screen:
        screen.show(picture_of(situation))
        screen.show(picture_of(situation))
    verdict = Verdict(10, 9, 1, 0, 2, 0, 0, {Breach.LOST: 1}, ("lost one",))
    screen.end(Outcome(verdict, 4, None, 0.25, 61.0))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines].count("split") == 1
    assert lines[0] == {"event": "started", "page": "http://127.0.0.1:12345/"}
    assert (lines[-1]["event"], lines[-1]["kept"], lines[-1]["lost"]) == ("verdict", False, 1)
    assert lines[-1]["fail_over_seconds"] is None


def test_into_a_file_go_plain_lines_without_control_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = screen_for(as_json=False)
    with screen:
        screen.show(picture_of(busy(1)))
    screen.end(Outcome(Verdict(1, 1, 0, 0, 0, 0, 0, {}, ()), 4, 5.2, 0.25, 61.0))
    text = capsys.readouterr().out
    assert "…000 → …002 + …003" in text
    assert "The promise was kept" in text
    assert "\x1b" not in text
