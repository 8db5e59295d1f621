"""What a running query tells of itself: tallies on disk, one line, and Prometheus."""

from __future__ import annotations

import json
import logging
import os
import re
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from shardline.consumer.logs import log_to_stderr
from shardline.core.offsets import Gap, Offset, Range
from shardline.core.positions import SHARD_END, TRIM_HORIZON
from shardline.spark.executor.delivery import Counts
from shardline.spark.executor.sink import ConsumerWriter, Delivered
from shardline.spark.metrics import Figures, Metrics, figures, line_of
from shardline.spark.options import Connection
from shardline.spark.process_metrics import (
    DELIVERIES,
    LAGS,
    LEASES,
    LagTally,
    add_to_tally,
    read_tally,
    write_tally,
)
from tests.servers.process import free_port
from tests.unit.spark.driver.leased_world import World

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Query:
    """What Spark tells of a query."""

    def __init__(self, progress: dict[str, Any] | None = None) -> None:
        self.lastProgress = progress


def test_tallies_add_up_and_are_seen_whole(tmp_path: Path) -> None:
    assert read_tally(tmp_path, DELIVERIES) == {}
    add_to_tally(tmp_path, DELIVERIES, {"processed": 3})
    add_to_tally(tmp_path, DELIVERIES, {"processed": 4, "retries": 1})
    assert read_tally(tmp_path, DELIVERIES) == {"processed": 7, "retries": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["deliveries.json"]
    write_tally(tmp_path / "gone", LEASES, {"held": 1})  # the query was stopped: no error


def test_the_sink_counts_what_its_tasks_did(tmp_path: Path) -> None:
    writer = ConsumerWriter(cast("Any", None), Connection("kinesis://orders"), None, tmp_path)
    for _ in range(2):
        writer.commit([Delivered(Counts(5, 100, 1)), None, Delivered(Counts(2, 50, 0, 1))], 0)
    now = figures(tmp_path, None)
    assert (now.records, now.bytes, now.retries, now.dead_letters) == (14, 300, 2, 2)


def test_lag_is_told_of_plans_that_are_not_worth_a_batch_too(tmp_path: Path) -> None:
    time = [0.0]
    tally = LagTally(tmp_path, lambda: time[0], lambda: NOW)
    ago = timedelta(seconds=3)
    ranges = {
        "a": Range(TRIM_HORIZON, TRIM_HORIZON, NOW - ago),
        "b": Range(TRIM_HORIZON, TRIM_HORIZON, None),
        "c": Range(TRIM_HORIZON, SHARD_END, NOW),
    }
    tally.tell(Offset(TRIM_HORIZON, NOW, ranges))
    assert read_tally(tmp_path, LAGS) == {"a": 3000}
    tally.tell(Offset(TRIM_HORIZON, NOW, {}))  # within the same second
    assert read_tally(tmp_path, LAGS) == {"a": 3000}
    time[0] = 1.5
    tally.tell(Offset(TRIM_HORIZON, NOW, {}))
    assert read_tally(tmp_path, LAGS) == {}


def test_lag_grows_while_a_batch_runs(tmp_path: Path) -> None:
    write_tally(tmp_path, LAGS, {"a": 250})
    assert 0.25 <= figures(tmp_path, None).lag_seconds["a"] < 60
    an_hour_ago = (tmp_path / "lags.json").stat().st_mtime - 3600
    os.utime(tmp_path / "lags.json", (an_hour_ago, an_hour_ago))
    assert figures(tmp_path, None).lag_seconds["a"] >= 3600


def test_leases_that_come_and_go_are_counted() -> None:
    world = World()
    world.put(20)
    told: list[dict[str, int]] = []
    ada = world.app("ada")
    ada.owner._tally = lambda counts: told.append(dict(counts))
    world.run(ada, until=world.all_delivered)
    assert told[-1] == {"held": 2, "taken": 2, "lost": 0, "handed_over": 0, "completed": 0}
    grace = world.app("grace")
    world.run(ada, grace, until=lambda: len(set(world.table.owners().values())) == 2)
    world.run(ada, grace, steps=3)
    assert told[-1] == {"held": 1, "taken": 2, "lost": 0, "handed_over": 1, "completed": 0}
    (mine,) = ada.held
    world.split(mine)
    world.run(ada, grace, until=lambda: told[-1]["completed"] == 1)
    held = len(ada.held)
    world.run(grace, steps=40)  # ada sleeps, and loses what it held
    world.run(ada, grace, steps=3)
    assert told[-1]["lost"] == held


@pytest.mark.req("K-16")
def test_one_line_says_what_matters_and_leaves_out_what_is_zero() -> None:
    assert line_of(Figures(held=2, records=1234, lag_seconds={"a": 0.2, "b": 1.04}), 56.7) == (
        "2 shards · 57 records/s · 1,234 in all · at most 1.0 s behind"
    )
    assert line_of(Figures(joined=False), 0) == "starting"
    busy = Figures(held=0, retries=1, dead_letters=2, lost=3, handed_over=4, gaps=5, completed=6)
    assert line_of(busy, 0).startswith("nothing to do, the others hold every shard · 0 records/s")
    assert line_of(busy, 0).endswith(
        "6 shards done · 4 leases handed over · 3 leases lost · 1 retry · 2 dead letters · 5 gaps"
    )


def test_gaps_come_from_the_newest_batch(tmp_path: Path) -> None:
    gap = Gap("a", TRIM_HORIZON, None, NOW, "trimmed")
    offset = Offset(TRIM_HORIZON, NOW, {}, {}, (gap,))
    progress = {"batchId": 4, "sources": [{"endOffset": json.dumps(offset.to_json())}]}
    now = figures(tmp_path, progress)
    assert (now.batch, now.gaps) == (4, 1)


def test_prometheus_is_served_on_loopback(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    write_tally(tmp_path, LEASES, {"held": 3, "lost": 1})
    write_tally(tmp_path, LAGS, {"shardId-7": 250})
    add_to_tally(tmp_path, DELIVERIES, {"processed": 9})
    port = free_port()
    Metrics(cast("Any", Query()), tmp_path).serve(port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    for line in (
        "shardline_leases_held 3.0",
        "shardline_leases_lost_total 1.0",
        "shardline_records_total 9.0",
    ):
        assert f"\n{line}\n" in text
    (lag,) = re.findall(r'\nshardline_lag_seconds\{shard="shardId-7"\} (.*)\n', text)
    assert float(lag) >= 0.25


def test_warnings_of_spark_processes_are_one_line_on_the_error_stream(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = logging.getLogger("shardline")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(ours, "handlers", [])
    log_to_stderr.cache_clear()
    try:
        log_to_stderr()
        log_to_stderr()
        logging.getLogger("shardline.spark.x").warning("lost\n  and found")
        logging.getLogger("shardline.spark.x").info("not this")
    finally:
        log_to_stderr.cache_clear()
    assert capsys.readouterr().err == "WARNING lost and found\n"
