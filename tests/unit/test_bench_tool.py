"""The benchmark tool itself: delays, shares, the search, reports, and pieces that fail or hang."""

from __future__ import annotations

import json
import math
import os
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest

from bench import picture, report, results_file, spread
from bench.__main__ import PARTS, stages
from bench.contenders import CONTENDERS
from bench.parts.catch_up import share_of
from bench.parts.failover import felt
from bench.parts.follow import GRID, search
from bench.piece import NOBODY, run_piece
from bench.workload.deliveries import Delivery, DeliveryLog, delays, parse, percentile
from bench.workload.processes import tree_of, usage_of
from bench.workload.records import (
    HEADER_BYTES,
    RECORD_BYTES,
    Entries,
    hash_key_of,
    name_of,
    stamp_of,
)
from bench.workload.service import Reads

if TYPE_CHECKING:
    from pathlib import Path


def test_a_record_starts_with_its_header() -> None:
    entries = Entries(7, hash_key=99, first_number=12)
    written = json.loads(b"".join(entries.next_parts(stamp_of(1_700_000_000.25))))
    data = b64decode(written["Data"], validate=True)
    assert len(data) == RECORD_BYTES
    assert data[:HEADER_BYTES] == b"1700000000.250000 k0007 00000000012 "
    assert written["ExplicitHashKey"] == "99"


def test_keys_lie_in_their_shard() -> None:
    width = 2**128 // 3
    for shard in range(3):
        places = [hash_key_of(shard, 3, key, 16) for key in range(16)]
        assert all(shard * width <= place < (shard + 1) * width for place in places)
        assert len(set(places)) == 16


def test_a_half_written_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log, file = DeliveryLog(tmp_path), tmp_path / "all.deliveries"
    file.write_text("10.0 2 9.0 9.5 k0001:1 k0002:1\n11.0 1")
    log.read_on()
    assert log.deliveries == [Delivery(10.0, 2, 9.0, 9.5, (("k0001", 1), ("k0002", 1)))]
    file.write_text(file.read_text() + " 9.6 9.6\n")
    log.read_on()
    assert log.records == 3


def test_records_that_never_came_are_late() -> None:
    came = delays([parse("10.0 90 9.0 9.0")], 0, 20)
    assert percentile(came, 0.5, 100) == pytest.approx(1.0)
    assert percentile(came, 0.95, 100) == math.inf


def test_delays_are_those_of_the_window() -> None:
    both = [parse("10.0 10 9.0 9.0"), parse("30.0 10 20.0 20.0")]
    assert {delay for delay, _ in delays(both, 15, 25)} == {10.0}


@pytest.mark.parametrize("first", [1, 8, 32, 64])
@pytest.mark.parametrize("limit", [0, 1, 3, 8, 11, 20, 33, 48, 64])
def test_the_search_finds_the_limit_to_a_step(limit: int, first: int) -> None:
    tried: list[int] = []

    def follows(shards: int) -> bool:
        tried.append(shards)
        return shards <= limit

    found = search(follows, first, tries=8)
    grid = (0, *GRID, 65)
    assert found <= limit < grid[grid.index(found) + 1]
    assert len(tried) == len(set(tried)) <= 8
    assert found != first or limit == 64 or len(tried) == 2


SECOND = 2_089
"""Records of 1,004 bytes that a shard gives in a second."""


@pytest.mark.parametrize(
    ("free", "deliveries", "share"),
    [
        (9, [(0, 5 * SECOND), (4, 5 * SECOND)], 1.0),  # whole pages, each as soon as it may be read
        (9, [(n, SECOND) for n in range(10)], 1.0),  # small pages, all the time
        (18, [(0, 5 * SECOND), (14, 5 * SECOND)], 0.53),  # ten seconds late
        (9, [(9, 10 * SECOND)], 1.0),  # a batch that was read before it was delivered
        (9, [(19, 10 * SECOND)], 0.5),  # a batch that took as long as its reads
    ],
)
def test_the_share_counts_until_all_is_delivered_and_the_debt_is_paid(
    free: float, deliveries: list[tuple[int, int]], share: float
) -> None:
    delivered = [parse(f"{10 + at} {count} 1 1") for at, count in deliveries]
    reads = Reads(10, 10 + free)
    assert share_of([reads], delivered) == pytest.approx(share, abs=0.01)
    later = Reads(11, 10 + free)
    assert share_of([reads, later], delivered * 2) == pytest.approx(share, abs=0.01)


def _felt(lines: list[str], written: int, until: float = 20.0) -> dict[str, float]:
    others = [
        f"{at} 62 1 1 " + " ".join(f"{name_of(key)}:{n}" for key in range(2, 64))
        for n, at in enumerate((11.0, 12.0, 13.0, 14.0), start=1)
    ]
    return felt([parse(line) for line in (*lines, *others)], 0, written + 4 * 62, 10.0, until)


def test_silence_repeats_and_missing_records_are_counted_for_each_key() -> None:
    a, b = name_of(0), name_of(1)
    lines = [f"10.5 2 1 1 {a}:1 {b}:1", f"11.0 1 1 1 {a}:2", f"14.0 2 1 1 {a}:2 {b}:2"]
    lines += [f"14.5 3 1 1 {a}:3 {a}:4 {b}:3"]
    assert _felt(lines, 8) == {"silence_seconds": 3.5, "repeats": 1, "missing": 1}


def test_a_key_of_which_records_are_missing_is_silent_until_now() -> None:
    lines = [f"10.5 2 1 1 {name_of(0)}:1 {name_of(0)}:2"]  # and nothing at all of the other
    assert _felt(lines, 8) == {"silence_seconds": 10.0, "repeats": 0, "missing": 6}
    assert _felt(lines, 8, until=30.0)["silence_seconds"] == 20.0


def test_a_process_tree_is_found_with_its_use() -> None:
    assert os.getpid() in tree_of(os.getppid())
    assert usage_of(os.getpid()).memory_mib > 1


LOAD: dict[str, Any] = {
    "p50_seconds": 0.1,
    "p99_seconds": None,
    "cpu_seconds_per_million": 12.0,
    "memory_mib": 140.0,
}
RESULTS: dict[str, Any] = {
    "parts": {
        "follow": {"boto3": {"shards": 16, "at_least": False, "limited_by_writer": True}},
        "catch_up": {"boto3": {"4": {"share": 0.97}}},
        "delay": {
            "source": {
                "first_record_seconds": 9.0,
                "first_record_warm_seconds": 2.0,
                "trickle": LOAD,
                "half": LOAD,
                "full": LOAD,
            }
        },
        "failover": {"kclpy": {"kill": {"silence_seconds": 12.0, "repeats": 3, "missing": 0}}},
    },
    "errors": {"follow": {"async-kinesis": "RuntimeError: <gone>"}},
}


def test_the_table_has_every_contender_that_was_measured_or_failed() -> None:
    lines = report.headline(RESULTS).splitlines()[2:]
    assert [line.split(" | ")[0].strip("| ") for line in lines] == [
        "shardline source, a query",
        "KCLPY 3.2.0",
        "boto3 loop, a thread a shard",
        "async-kinesis 3.0.1",
    ]
    assert lines[1].endswith("| 12.0 s | 3 | 0 |")
    assert "| ≥ 16 | – / 0.97 / – / – |" in lines[2]
    assert "0.10 s / not all came" in lines[0]
    assert "RuntimeError: <gone>" in lines[3]
    assert "12.0 s / 3 / 0" in report.failover(RESULTS)


def test_a_table_replaces_what_lies_between_its_markers(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("a\n<!-- bench:headline -->\nold\n<!-- end -->\nb <!-- end -->\n")
    report.write(RESULTS, [document])
    report.write(RESULTS, [document])
    table = report.headline(RESULTS)
    assert document.read_text() == (
        f"a\n<!-- bench:headline -->\n{table}\n<!-- end -->\nb <!-- end -->\n"
    )


def test_the_picture_is_well_formed() -> None:
    texts = list(ET.fromstring(picture.draw(RESULTS)).itertext())  # noqa: S314 - our own
    assert "boto3 loop, a thread a shard" in texts
    assert "≥ 16" in texts
    assert "not measured" in texts
    assert "not all came" in texts


def test_a_new_piece_replaces_the_old_one_and_keeps_the_others(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    results_file.merge("follow", "boto3", {"shards": 1}, None, file)
    results_file.merge("follow", "kclpy", None, "gone", file)
    results_file.merge("follow", "kclpy", {"shards": 3}, None, file)
    results = results_file.merge("follow", "boto3", {"shards": 2}, None, file)
    assert results["parts"]["follow"] == {"boto3": {"shards": 2}, "kclpy": {"shards": 3}}
    assert results["errors"] == {}


def test_a_whole_run_forgets_what_it_did_not_measure_and_keeps_two_runs(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    results_file.merge("follow", "boto3", {"shards": 1}, None, file)
    for number in range(3):
        results_file.keep_run({"a": {"value": number}}, file)
    results_file.forget(file)
    results = results_file.load(file)
    assert (results["parts"], results["errors"]) == ({}, {})
    assert [run["a"]["value"] for run in results["runs"]] == [1, 2]


def test_figures_state_the_range_of_their_rounds_and_of_their_kind() -> None:
    rounds = [{**LOAD, "p50_seconds": seconds} for seconds in (0.08, 0.3)]
    load = {**LOAD, "rounds": rounds}
    delay = {**RESULTS["parts"]["delay"]["source"], "trickle": load}
    found = spread.figures({"parts": {**RESULTS["parts"], "delay": {"source": delay}}})
    assert found["delay p50: source: trickle"] == {"value": 0.1, "low": 0.07, "high": 0.3}
    assert found["share of quota: boto3: 4 shards"] == {"value": 0.97, "low": 0.89, "high": 1.05}
    assert found["full shards followed: boto3"] == {"value": 16, "low": 12, "high": None}
    assert "delay p99: source: trickle" not in found


def test_a_share_that_the_cores_limit_states_a_wider_range() -> None:
    shares = {"1": {"share": 0.95}, "16": {"share": 0.8}, "64": {"share": 0.2}}
    found = spread.figures({"parts": {"catch_up": {"kclpy": shares}}})
    assert [(each["low"], each["high"]) for each in found.values()] == [
        (0.87, 1.03),
        (0.6, 1.0),
        (0.12, 0.28),
    ]


def test_the_silence_of_other_clients_states_a_wider_range_than_ours() -> None:
    failover = {"deploy": {"silence_seconds": 20.0}}
    parts = {"failover": {"consumer-process": failover, "kclpy": failover}}
    found = spread.figures({"parts": parts})
    ranges = [
        (
            found[f"longest silence: {who}: deploy"]["low"],
            found[f"longest silence: {who}: deploy"]["high"],
        )
        for who in ("consumer-process", "kclpy")
    ]
    assert ranges == [(11.0, 29.0), (0.0, 40.0)]


def test_runs_are_compared_by_what_they_state() -> None:
    one: spread.Figures = {
        "a": {"value": 4, "low": 3, "high": 5},
        "b": {"value": 16, "low": 12, "high": None},
    }
    near = {"a": {"value": 6, "low": 5, "high": 8}, "b": {"value": 40, "low": 32, "high": 48}}
    far = {"a": {"value": 7, "low": 6, "high": 8}, "c": {"value": 1, "low": 1, "high": 1}}
    assert spread.compared(one, near) == "0 of 2 figures differ by more than they state"
    assert spread.compared(one, far).splitlines() == [
        "a: 4 (3 to 5) and 7 (6 to 8)",
        "1 of 1 figures differ by more than they state",
    ]


def test_each_target_is_met_or_says_what_holds_it_back() -> None:
    def share(value: float) -> dict[str, Any]:
        return {shards: {"share": value} for shards in ("1", "4", "16")}

    parts = {"catch_up": {"consumer-process": share(0.97), "source": share(0.4)}}
    lines = report.targets({"parts": parts}).splitlines()
    assert "0.97 / 0.97 / 0.97 | met |" in lines[2]
    assert "0.40 / 0.40 / 0.40 | the two cores" in lines[3]
    assert lines[4].endswith("| – | not measured |")


def test_a_target_of_full_shards_is_judged_by_the_load_of_that_number() -> None:
    def judged(*loads: tuple[int, float]) -> str:
        found = [{"shards": n, "delivered": 1.0, "p50_seconds": p50} for n, p50 in loads]
        follow = {"shards": 96, "at_least": True, "limited_by_writer": False, "loads": found}
        lines = report.targets({"parts": {"follow": {"consumer-process": follow}}}).splitlines()
        return next(line for line in lines if "follows 16" in line)

    assert "1.00 delivered, p50 0.13 s | met |" in judged((16, 0.13), (96, 0.47))
    assert "p50 0.47 s | the two cores" in judged((16, 0.47), (20, 0.13))
    assert "not measured at 16 | the two cores" in judged((96, 0.2))


def test_the_headline_of_the_main_contenders_comes_first() -> None:
    order = stages(list(PARTS), list(CONTENDERS))
    beside = next(n for n, stage in enumerate(order) if len(stage) > 1)
    assert all(stage[0].headline for stage in order[:beside])
    assert not any(job.headline for stage in order[beside + 1 :] for job in stage)
    lanes = {"ours", "kcl-java", "kclpy", "counted", "waiting"}
    assert {job.lane for job in order[beside]} == lanes
    assert sum(map(len, order)) == len({job for stage in order for job in stage})


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules are parts of the benchmark, beside those that there are."""
    folder = tmp_path / "bench" / "parts"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    return folder


def write(parts: Path, name: str, body: str) -> None:
    (parts / f"{name}.py").write_text(
        "def measure(*, quick):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    )


def test_a_piece_returns_its_data(parts: Path) -> None:
    write(parts, "fake_good", "return {'quick': quick}")
    piece = run_piece("fake_good", NOBODY, quick=True, limit_seconds=60)
    assert (piece.data, piece.error) == ({"quick": True}, None)


def test_a_piece_that_fails_is_an_error_of_one_line(parts: Path) -> None:
    write(parts, "fake_bad", "raise RuntimeError('no such jar')")
    piece = run_piece("fake_bad", NOBODY, quick=True, limit_seconds=60)
    assert (piece.data, piece.error) == (None, "RuntimeError: no such jar")


def test_a_piece_that_does_not_end_is_stopped_with_all_it_started(parts: Path) -> None:
    pid = parts / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    write(
        parts,
        "fake_endless",
        f"""
        import subprocess
        subprocess.run([{sys.executable!r}, '-c', {child!r}])
        """,
    )
    piece = run_piece("fake_endless", NOBODY, quick=True, limit_seconds=6)
    assert piece.error == "it was stopped after 6 s"
    with pytest.raises(ProcessLookupError):
        _wait_for_end_of(int(pid.read_text()))


def _wait_for_end_of(pid: int) -> None:
    for _ in range(100):  # until its new parent has waited for it
        os.kill(pid, 0)
        time.sleep(0.05)
