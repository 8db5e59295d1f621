"""The latest snapshot as JSON: its age, its notice, its payloads."""

from __future__ import annotations

import json
from dataclasses import replace

from shardline.dashboard.latest import LatestSnapshot
from shardline.observation.snapshot import DeadLetter, Snapshot

LETTER = DeadLetter(1.0, "s", "key", "7", "bad", "SECRET")
SNAPSHOT = Snapshot(1.0, "kinesis://orders", dead_letters=(LETTER,))


def test_a_snapshot_that_is_too_old_has_a_notice_of_its_age() -> None:
    now = [100.0]
    latest = LatestSnapshot(SNAPSHOT, stale_seconds=10, clock=lambda: now[0])
    now[0] = 110.0
    assert json.loads(latest.text(with_payloads=False))["notice"] == ""
    now[0] = 111.0
    for with_payloads in (False, True):
        notice = json.loads(latest.text(with_payloads=with_payloads))["notice"]
        assert notice == "the last observation was 11 s ago"
    latest.put(SNAPSHOT)
    assert json.loads(latest.text(with_payloads=False))["notice"] == ""


def test_the_notice_of_the_snapshot_and_of_a_failure_are_kept() -> None:
    latest = LatestSnapshot(SNAPSHOT, stale_seconds=10)
    latest.fail("boom")
    assert json.loads(latest.text(with_payloads=False))["notice"] == "boom"
    latest.put(replace(SNAPSHOT, notice="not found"))
    assert json.loads(latest.text(with_payloads=False))["notice"] == "not found"


def test_payloads_are_left_out_unless_asked_for() -> None:
    latest = LatestSnapshot(SNAPSHOT, stale_seconds=10)
    assert "SECRET" not in latest.text(with_payloads=False)
    assert json.loads(latest.text(with_payloads=True))["dead_letters"][0]["payload"] == "SECRET"
