"""The soak tool itself: slopes, what counts as growth, the verdict, the picture."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

from bench.soak import picture, report
from bench.soak.history import judge
from bench.soak.samples import LineCounter, sample_of, samples_of_trees

if TYPE_CHECKING:
    from pathlib import Path


def samples(hours: float, mib_per_hour: float, descriptors_per_hour: float) -> list[dict[str, Any]]:
    """Return samples of one process that warms up by 40 MiB, then grows at a steady rate."""
    return [
        {
            "at": at,
            "processes": {
                "ada": {
                    "pid": 7,
                    "pss_mib": 60 + min(40, at / 10) + mib_per_hour * at / 3600,
                    "rss_mib": 80 + min(40, at / 10) + mib_per_hour * at / 3600,
                    "descriptors": 12 + int(descriptors_per_hour * at / 3600),
                    "threads": 8,
                    "cpu_seconds": at / 50,
                }
            },
            "log_lines": {"ada": int(at // 60)},
            "lease_table_kib": 100,
            "written": int(at) * 50,
            "refused": 0,
            "shards": 4,
        }
        for at in (float(second) for second in range(0, int(hours * 3600) + 1, 5))
    ]


def test_a_slope_is_fitted_without_the_warm_up() -> None:
    used = report.summary(samples(2, 0.25, 0))["processes"]["ada"]
    assert used["rss_slope_mib_per_hour"] == pytest.approx(0.25, abs=0.001)
    assert used["cpu_share"] == pytest.approx(0.02)


def test_a_steady_process_does_not_grow_and_a_leak_is_named() -> None:
    assert report.growth(report.summary(samples(2, 0.5, 1))) == []
    assert report.growth(report.summary(samples(2, 1.5, 0))) == ["ada: +1.50 MB of RSS an hour"]
    [line] = report.growth(report.summary(samples(2, 0, 10)))
    assert line == "ada: 17 → 32 descriptors"


def test_a_run_of_minutes_is_too_short_to_tell() -> None:
    assert report.growth(report.summary(samples(0.1, 50, 0))) == []


def test_log_lines_are_counted_for_each_minute() -> None:
    rate = report.summary(samples(0.5, 0, 0))["log_lines_per_minute"]["ada"]
    assert rate == {"mean": pytest.approx(1.0), "most": 1}


def test_the_table_and_the_picture_have_every_process() -> None:
    history = samples(1, 0, 0)
    results = report.summary(history)
    assert "| ada | +0.00 | +0.00 |" in report.table(results)
    texts = list(ET.fromstring(picture.draw(history, results)).itertext())  # noqa: S314 - our own
    assert "ada +0.00 MB/h" in texts
    assert "60 min" in texts


def test_the_verdict_finds_what_was_not_delivered(tmp_path: Path) -> None:
    (tmp_path / "shards.jsonl").write_text('{"id": "shard-0", "parents": []}\n')
    written = [f'["shard-0", "a", {number}]\n' for number in (1, 2, 3)]
    (tmp_path / "written.jsonl").write_text("".join(written) + '["shard-0", "a", 4')
    line = {"at": 1, "what": "delivered", "shard": "shard-0", "fence": [1, 0], "keys": ["a", "a"]}
    (tmp_path / "ada.jsonl").write_text(json.dumps(line | {"numbers": ["1", "2"]}) + "\n")
    verdict = judge(tmp_path, ["ada", "grace"])
    assert (verdict.written, verdict.delivered, verdict.lost) == (3, 2, 1)


def test_lines_of_a_growing_log_are_counted_once(tmp_path: Path) -> None:
    log = tmp_path / "ada.log"
    counter = LineCounter(log)
    assert counter.count() == 0
    log.write_text("one\ntwo\nthr")
    assert counter.count() == 2
    log.write_text("one\ntwo\nthree\n")
    assert counter.count() == 3


def test_a_sample_has_memory_descriptors_and_threads_of_a_process() -> None:
    before = sample_of(os.getpid())
    assert before["pss_mib"] > 1
    with open(os.devnull):  # noqa: PTH123 - one descriptor more
        assert sample_of(os.getpid())["descriptors"] == before["descriptors"] + 1
    assert samples_of_trees({"me": os.getpid()})["me"]["pid"] == os.getpid()
