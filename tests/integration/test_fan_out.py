"""Enhanced fan-out as users have it: registered, pushed, renewed, taken over, and polled instead.

Runs are real processes on the embedded service; the checker judges what they recorded.
"""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import shardline
from shardline.errors import ConfigurationError, GapError, StreamNotFound
from shardline.local import Clock, Service
from shardline.local.traffic import reshard_once
from shardline.services.access import Access
from shardline.services.fan_out.registration import consumers_of, ensure_consumer
from tests.integration.kinesis_calls import put, shard
from tests.integration.worker_runs import CALM, Stage, stage_on, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORDERS = "kinesis://orders"
STREAM = {"StreamName": "orders"}
STREAM_ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with stage_on(tmp_path) as made:
        yield made


def judged(stage: Stage) -> int:
    """Wait until everything written was delivered, judge it, and return the repeats."""
    stage.end_traffic()
    wait_until(stage.caught_up, "everything was delivered")
    return stage.verdict().require().repeated


@pytest.mark.req("F-01", "F-02", "F-06")
def test_two_workers_share_a_pushed_stream_that_splits_and_merges(stage: Stage) -> None:
    stage.write()
    ada = stage.start("ada", "--fan-out", "billing", *CALM)
    grace = stage.start("grace", "--fan-out", "billing", *CALM)
    wait_until(lambda: min(ada.delivered(), grace.delivered()) > 0, "both deliver")
    rng = random.Random(3)
    for _ in range(4):
        reshard_once(stage.client, "orders", rng)
        stage.service.clock.advance(300)  # every subscription ends, and is renewed
    assert judged(stage) == 0
    registered = [run for run in (ada, grace) if "costs money" in run.output]
    assert len(registered) == 1
    assert pushed_shards(stage) > 0


def pushed_shards(stage: Stage) -> int:
    """Return how many shards the consumer was subscribed to."""
    account = stage.service.kinesis.account
    stream = account.find("orders", stage.service.clock.now_ms())
    [consumer] = stream.consumers.values()
    return len(consumer.subscriptions)


@pytest.mark.req("F-05")
def test_workers_poll_on_without_loss_when_their_consumer_is_deregistered(stage: Stage) -> None:
    stage.write()
    ada = stage.start("ada", "--fan-out", "billing", *CALM)
    wait_until(lambda: ada.delivered() > 100, "pushed")
    stage.client.deregister_stream_consumer(StreamARN=STREAM_ARN, ConsumerName="billing")
    reached = ada.delivered()
    wait_until(lambda: ada.delivered() > reached + 200, "polled")
    assert judged(stage) == 0
    assert "polling for the next" in ada.output


# --- shardline.stream --------------------------------------------------------------------------


@pytest.fixture
def service() -> Iterator[Service]:
    # Not strict: its clock stands still, and a stream would never be active.
    with Service(clock=Clock(datetime(2026, 1, 1, tzinfo=UTC))) as service:
        service.create_stream("orders", 1)
        yield service


@pytest.fixture
def kinesis(service: Service) -> Any:
    return service.client("kinesis")


def taken(stream: shardline.Stream[Any], count: int) -> list[bytes]:
    found: list[bytes] = []

    def has_all() -> bool:
        while (record := next(stream)) is not None:
            found.append(record.data)
        return len(found) >= count

    wait_until(has_all, f"{count} records")
    return found


@pytest.mark.req("F-02", "F-06")
def test_a_stream_is_pushed_through_a_split_and_a_merge(service: Service, kinesis: Any) -> None:
    url = service.endpoint_url
    put(kinesis, STREAM, b"1", b"2")
    with shardline.stream(ORDERS, "trim_horizon", endpoint_url=url, fan_out="me") as stream:
        assert taken(stream, 2) == [b"1", b"2"]
        kinesis.split_shard(**STREAM, ShardToSplit=shard(0), NewStartingHashKey=str(2**127))
        put(kinesis, STREAM, b"3", hash_key=2**127 + 5)
        service.clock.advance(300)
        put(kinesis, STREAM, b"4", hash_key=2**127 + 5)
        assert taken(stream, 2) == [b"3", b"4"]
        kinesis.merge_shards(**STREAM, ShardToMerge=shard(1), AdjacentShardToMerge=shard(2))
        put(kinesis, STREAM, b"5", hash_key=2**127 + 5)
        assert taken(stream, 1) == [b"5"]
        token = stream.token
    put(kinesis, STREAM, b"6")
    service.clock.advance(5)
    with shardline.stream(ORDERS, token, endpoint_url=url, fan_out="me") as stream:
        assert taken(stream, 1) == [b"6"]


@pytest.mark.req("F-02")
def test_a_stream_at_latest_is_pushed_what_comes_after(service: Service, kinesis: Any) -> None:
    put(kinesis, STREAM, b"before")
    url = service.endpoint_url
    with shardline.stream(ORDERS, "latest", endpoint_url=url, fan_out="me") as stream:
        put(kinesis, STREAM, b"1")
        assert taken(stream, 1) == [b"1"]
        service.clock.advance(300)
        put(kinesis, STREAM, b"2")
        assert taken(stream, 1) == [b"2"]


@pytest.mark.req("F-07")
def test_what_expired_unread_is_a_gap(service: Service, kinesis: Any) -> None:
    url = service.endpoint_url
    put(kinesis, STREAM, b"1", b"2")
    with shardline.stream(ORDERS, "trim_horizon", endpoint_url=url, fan_out="me") as stream:
        assert taken(stream, 2) == [b"1", b"2"]
        token = stream.token
    put(kinesis, STREAM, b"3")
    service.clock.advance(26 * 3600)
    with (
        shardline.stream(ORDERS, token, endpoint_url=url, fan_out="me") as stream,
        pytest.raises(GapError, match="may be lost"),
    ):
        wait_until(lambda: next(stream) is not None, "a gap")


def test_only_kinesis_pushes_and_names_are_checked(service: Service) -> None:
    url = service.endpoint_url
    with pytest.raises(ConfigurationError, match="only Kinesis has enhanced fan-out"):
        shardline.stream("dynamodb://users", "latest", endpoint_url=url, fan_out="me")
    with pytest.raises(ConfigurationError, match="is not the name of a fan-out consumer"):
        shardline.stream(ORDERS, "latest", endpoint_url=url, fan_out="a b")


# --- registration ------------------------------------------------------------------------------


@pytest.mark.req("F-01")
def test_a_missing_consumer_is_registered_once_and_said_to_cost_money(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Service(strict=True, status_delay_seconds=1.0) as service:
        service.client("kinesis").create_stream(**STREAM, ShardCount=1)
        access = Access(endpoint_url=service.endpoint_url)
        with caplog.at_level(logging.WARNING), consumers_of(ORDERS, access) as consumers:
            wait_until(lambda: consumers._describe().active, "the stream is ACTIVE")
            assert [ensure_consumer(ORDERS, access, "me") for _ in range(2)] == [True, False]
            found = consumers.find("me")
        assert found is not None
        assert found.active
    assert sum("costs money" in record.message for record in caplog.records) == 1


def test_a_stream_that_is_missing_is_not_taken_for_a_missing_consumer(service: Service) -> None:
    with pytest.raises(StreamNotFound, match="kinesis://nowhere"):
        ensure_consumer("kinesis://nowhere", Access(endpoint_url=service.endpoint_url), "me")


def shardline_consumers(service: Service, *arguments: str) -> subprocess.CompletedProcess[str]:
    url = ("--endpoint-url", service.endpoint_url)
    command = [sys.executable, "-m", "shardline", "consumers", *arguments, *url]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.req("F-08")
def test_consumers_are_registered_listed_and_deregistered(service: Service) -> None:
    assert "has no registered consumers" in shardline_consumers(service, "list", ORDERS).stdout
    done = shardline_consumers(service, "register", ORDERS, "me")
    assert (done.returncode, done.stdout) == (0, "me is now registered and ACTIVE\n")
    assert "costs money" in done.stderr
    again = shardline_consumers(service, "register", ORDERS, "me")
    assert again.stdout == "me is registered already and ACTIVE\n"
    [listed] = json.loads(shardline_consumers(service, "list", ORDERS, "--json").stdout)[
        "consumers"
    ]
    assert (listed["name"], listed["status"]) == ("me", "ACTIVE")
    assert shardline_consumers(service, "deregister", ORDERS, "me").returncode == 0
    gone = shardline_consumers(service, "deregister", ORDERS, "me")
    assert gone.returncode == 2
    assert "has no consumer 'me'" in gone.stderr
