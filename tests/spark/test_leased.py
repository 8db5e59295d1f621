"""Spark applications that share a stream through a lease table, as real processes.

A start of Spark takes long, so a few long stories each prove many things.
"""

from __future__ import annotations

import random
import re
import signal
import time
from typing import TYPE_CHECKING

import boto3
import pytest

from shardline.local.traffic import reshard_once
from tests.spark.members import LEASE_SECONDS, STREAM, Member, Team

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import Endpoint

pytestmark = pytest.mark.timeout(2400)


def reshard(team: Team, rng: random.Random, times: int, most_open: int) -> None:
    for _ in range(times):
        reshard_once(team.client, STREAM, rng, most_open=most_open)


def stop(team: Team, member: Member) -> None:
    """Stop an application as a deployment does, and see that it handed everything back."""
    member.ask_to_stop()
    assert member.wait(120) == 0, member.output[-3000:]
    assert "every lease handed back, nothing to repeat" in member.last_words()
    assert "Traceback" not in member.output
    assert member.name not in team.held()


@pytest.mark.req(
    "K-05", "K-06", "K-07", "K-09", "K-10", "K-11", "K-16", "K-17", "K-23", "K-25", "K-31", "K-32",
    "K-34", "K-41", "K-45", "K-47", "K-53", "P-01", "P-02", "P-03", "O-01", "O-02", "O-03", "O-05",
)  # fmt: skip
@pytest.mark.case("W-01", "W-02", "W-09", "W-17", "W-18", "L-06", "L-08", "L-13", "R-03")
def test_two_then_three_then_one(tmp_path: Path) -> None:
    rng = random.Random(5)
    with Team(tmp_path, shards=12) as team:
        traffic = team.traffic(keys=48)
        ada, grace = team.start("ada"), team.start("grace")
        team.until(lambda: team.balanced(ada, grace), "two share the shards", ada, grace)
        reshard(team, rng, 2, most_open=13)
        mary = team.start("mary")
        team.until(lambda: team.balanced(ada, grace, mary), "three share", ada, grace, mary)
        reshard(team, rng, 2, most_open=13)
        team.until(lambda: team.balanced(ada, grace, mary), "three share", ada, grace, mary)

        stop(team, grace)
        team.until(lambda: team.balanced(ada, mary), "two are left", ada, mary)
        seen = team.delivered()
        team.until(lambda: team.delivered() > seen + 100, "they go on", ada, mary)
        assert team.repeated() == 0, "a deploy and hand-overs repeat nothing"

        asleep_at = time.time()
        mary.gate.touch()
        team.until(lambda: any(x.what == "waiting" for x in mary.log.lines), "in mid-batch", mary)
        mary.freeze()
        frozen_at = time.monotonic()
        team.until(lambda: team.balanced(ada), "the other has all of them", ada)
        reshard(team, rng, 1, most_open=13)
        team.until(
            lambda: time.monotonic() - frozen_at > 3 * LEASE_SECONDS, "three lease times", ada
        )
        versions = {r.shard_id: r.version for r in team.rows()}
        mary.gate.unlink()
        mary.thaw()
        team.until(lambda: team.balanced(ada, mary), "the sleeper has its share again", ada, mary)
        assert all(r.version >= versions[r.shard_id] for r in team.rows() if r.shard_id in versions)
        assert "any more" in mary.output or any(x.what == "lost" for x in mary.log.lines)

        mary.kill()
        team.until(lambda: team.balanced(ada), "one is left", ada)
        reshard(team, rng, 2, most_open=13)
        traffic.stop()
        team.until(lambda: team.delivered() >= traffic.count, "everything came", ada)
        team.until(
            lambda: all(r.completed or r.lease_owner for r in team.rows()), "all is held", ada
        )
        stop(team, ada)

        verdict = team.judge(traffic)
        assert (verdict.lost, verdict.out_of_order) == (0, 0)
        assert team.repeated(before=asleep_at) == 0
        for shard_id, parents in team.parents().items():
            for parent in parents:
                assert team.first("ended", parent) < team.first("started", shard_id)
            if team.first("delivered", shard_id) < float("inf"):  # some shards get no records
                assert team.first("started", shard_id) < team.first("delivered", shard_id)
        closed = {parent for parents in team.parents().values() for parent in parents}
        assert {r.shard_id for r in team.rows() if r.completed} == closed
        assert not team.held()
        assert "leases handed over" in ada.output


@pytest.mark.req("K-11", "K-12", "K-17", "P-02")
@pytest.mark.case("W-02", "W-18")
def test_a_kill_and_a_deploy_over_dynamodb(tmp_path: Path, dynamodb_local: Endpoint) -> None:
    rng = random.Random(7)
    name, url = f"leases-{tmp_path.name}", dynamodb_local.endpoint_url
    with Team(tmp_path, shards=4, lease_table=f"dynamodb://{name}", lease_endpoint_url=url) as team:
        traffic = team.traffic(keys=24)
        ada, grace = team.start("ada"), team.start("grace")
        team.until(lambda: team.balanced(ada, grace), "two share the shards", ada, grace)
        reshard(team, rng, 2, most_open=6)
        team.until(lambda: team.balanced(ada, grace), "two share the shards", ada, grace)
        killed_at = time.time()
        ada.kill()
        team.until(lambda: team.balanced(grace), "the other has all of them", grace)
        traffic.stop()
        team.until(lambda: team.delivered() >= traffic.count, "everything came", grace)
        stop(team, grace)
        assert team.judge(traffic).lost == 0
        assert team.repeated(before=killed_at) == 0
        items = boto3.client("dynamodb", endpoint_url=url).scan(TableName=name)["Items"]
        assert items


@pytest.mark.req("K-10", "K-39", "P-03")
@pytest.mark.case("R-03", "R-10", "R-13", "W-02")
def test_a_driver_killed_between_planning_a_batch_and_running_it(tmp_path: Path) -> None:
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"))
    with Team(tmp_path, shards=2) as team:
        traffic = team.traffic(keys=12)
        ada = team.start("ada", *checkpoint)
        team.until(lambda: team.delivered() > 50, "the first records came", ada)
        kill_in_mid_batch(team, ada, tmp_path)

        again = team.start("ada", *checkpoint)  # the same name goes on with what was planned
        seen = team.delivered()
        team.until(lambda: team.delivered() > seen + 50, "the same name goes on", again)
        kill_in_mid_batch(team, again, tmp_path)

        mary = team.start("mary")  # another takes its shards over, when the leases have run out
        team.until(lambda: team.balanced(mary), "another has the shards", mary)
        seen = team.delivered()
        team.until(lambda: team.delivered() > seen + 50, "another goes on", mary)
        late = team.start("ada", *checkpoint)
        team.until(lambda: team.balanced(late, mary), "both share", late, mary)
        assert "dropped from a planned batch" in late.output
        traffic.stop()
        team.until(lambda: team.delivered() >= traffic.count, "everything came", late, mary)
        stop(team, late)
        stop(team, mary)
        assert team.judge(traffic).lost == 0
        assert not team.held()


def kill_in_mid_batch(team: Team, member: Member, folder: Path) -> None:
    """Kill an application when its newest batch is planned and held back at the gate."""

    def newest(log: str) -> int:
        names = [p.name for p in (folder / "checkpoint" / log).glob("*") if p.name.isdigit()]
        return max(map(int, names), default=-1)

    done = newest("commits")
    team.until(lambda: newest("commits") > done, "a batch is committed", member)
    waiting = sum(x.what == "waiting" for x in member.log.lines)
    member.gate.touch()
    team.until(
        lambda: sum(x.what == "waiting" for x in member.log.lines) > waiting, "planned", member
    )
    member.kill()
    member.gate.unlink()
    assert newest("offsets") == newest("commits") + 1


@pytest.mark.req("O-17", "O-18", "O-19", "O-20", "O-21", "O-22")
def test_ephemeral_from_the_latest_point_through_reshards(tmp_path: Path) -> None:
    with Team(tmp_path, shards=2) as team:
        online: list[str] = []

        def put(count: int) -> list[str]:
            answers = [
                team.client.put_record(StreamName=STREAM, PartitionKey=f"key-{n}", Data=b"x")
                for n in range(count)
            ]
            return [answer["SequenceNumber"] for answer in answers]

        def seen() -> list[str]:
            team.read_logs()
            lines = [x for m in team.members for x in m.log.lines]
            return [str(r.sequence) for x in lines for r in x.records]

        put(20)  # before it is there: not its business
        rng = random.Random(3)
        reshard(team, rng, 1, most_open=2)  # and neither is what closed before
        put(20)
        first = team.start("first", *EPHEMERAL)
        team.until(lambda: has_pinned(first), "it has pinned its place", first)
        online += put(20)
        team.until(lambda: len(seen()) >= 20, "what is new came", first)
        for _ in range(3):
            reshard(team, rng, 1, most_open=3)
            online += put(20)
        team.until(lambda: len(seen()) >= len(online), "children came from their beginning", first)
        first.ask_to_stop()
        assert first.wait(120) == 0, first.output[-3000:]
        put(20)  # while it is away
        second = team.start("second", *EPHEMERAL)
        team.until(lambda: has_pinned(second), "it has pinned its place", second)
        online += put(20)
        team.until(lambda: len(seen()) >= len(online), "what is new came", second)
        second.ask_to_stop()
        assert second.wait(120) == 0, second.output[-3000:]
        assert sorted(seen(), key=int) == sorted(online, key=int)


def has_pinned(member: Member) -> bool:
    """Say whether it tells of shards: it does when its first plan is made."""
    return re.search(r"^[1-9]\d* shards? · ", member.output, re.MULTILINE) is not None


EPHEMERAL = ("--ephemeral", "--status-seconds", "1")


@pytest.mark.req("K-16")
@pytest.mark.case("R-01", "R-02", "W-18")
def test_a_record_that_fails_seen_from_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LETTERS", str(tmp_path / "letters"))
    with Team(tmp_path, shards=2) as team:
        for n in range(40):
            data = b"poison" if n == 17 else b"%d" % n
            team.client.put_record(StreamName=STREAM, PartitionKey=f"key-{n}", Data=data)
        picky = team.start("ada", consumer="tests.spark.gated:Picky")
        assert picky.wait(300) == 1, picky.output[-3000:]
        assert picky.last_words() == "failed: ValueError: cannot read poison"
        assert "Picky failed on" in picky.output
        assert "\n\tat " not in picky.output, "no stack trace of Java"
        assert not team.held(), "it gave its leases back"
        assert team.delivered() < 40

        lenient = team.start("ada", consumer="tests.spark.gated:Lenient")
        team.until(lambda: team.delivered() == 39, "all but one came", lenient)
        (letters,) = (tmp_path / "letters").iterdir()
        assert letters.read_text().count('"reason": "ValueError: cannot read poison"') == 1
        assert "put 1 records aside to file://" in lenient.output
        lenient.send(signal.SIGINT)
        assert lenient.wait(120) == 0, lenient.output[-3000:]
        assert "stopping after the running batch" in lenient.output
        assert "1 dead letters" in lenient.output or "records/s" in lenient.output
        assert not team.held()
