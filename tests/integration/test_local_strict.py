"""The strict embedded service: everything that AWS may do, by one switch, and repeatable."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config

from shardline.local import Clock, Service
from tests.contract.reading import wait_until
from tests.integration.kinesis_calls import iterator, listed, put, read, shard

START = datetime(2026, 1, 1, tzinfo=UTC)
STREAM = {"StreamName": "orders"}


def client_that_tries(service: Service, times: int) -> Any:
    return service.client("kinesis", Config(retries={"total_max_attempts": times}))


def status_of(kinesis: Any) -> str:
    summary = kinesis.describe_stream_summary(**STREAM)["StreamDescriptionSummary"]
    text: str = summary["StreamStatus"]
    return text


@pytest.mark.req("E-01")
def test_statuses_last_for_a_while() -> None:
    with Service(strict=True, clock=Clock(START), limits=False) as service:
        service.settings.cut_answer_one_in = 0
        kinesis = client_that_tries(service, 1)
        kinesis.create_stream(**STREAM, ShardCount=1)
        assert status_of(kinesis) == "CREATING"
        service.clock.advance(1)
        assert status_of(kinesis) == "ACTIVE"
        kinesis.split_shard(**STREAM, ShardToSplit=shard(0), NewStartingHashKey=str(2**127))
        assert status_of(kinesis) == "UPDATING"
        service.clock.advance(1)
        kinesis.delete_stream(**STREAM)
        assert status_of(kinesis) == "DELETING"
        with pytest.raises(kinesis.exceptions.ResourceNotFoundException):
            put(kinesis, STREAM, b"1")
        service.clock.advance(1)
        with pytest.raises(kinesis.exceptions.ResourceNotFoundException):
            status_of(kinesis)


def unpleasant(seed: int) -> dict[str, list[Any]]:
    """Return what one client meets at a strict service with a seed."""
    with Service(strict=True, clock=Clock(START), limits=False, seed=seed) as service:
        service.create_stream("orders", 1)
        service.clock.advance(1)
        kinesis = client_that_tries(service, 5)
        kinesis.split_shard(**STREAM, ShardToSplit=shard(0), NewStartingHashKey=str(2**127))
        service.clock.advance(1)
        listings = [len(listed(kinesis, **STREAM)) for _ in range(40)]
        put(kinesis, STREAM, b"1", hash_key=0)
        opened = iterator(kinesis, STREAM, 1, "TRIM_HORIZON")
        plain = boto3.client("kinesis", endpoint_url=service.endpoint_url, region_name="us-east-1")
        answers = [plain.get_records(ShardIterator=opened) for _ in range(80)]
        # boto3 does not notice that an answer was cut.
        pages = [len(answer["Records"]) if "Records" in answer else "cut" for answer in answers]
        return {"listings": listings, "pages": pages}


@pytest.mark.req("E-01")
def test_listings_are_stale_pages_empty_and_answers_cut_as_the_seed_says() -> None:
    first = unpleasant(seed=1)
    assert set(first["listings"]) == {1, 3}
    assert set(first["pages"]) == {0, 1, "cut"}
    assert first == unpleasant(seed=1)
    assert first != unpleasant(seed=2)


@pytest.mark.req("E-01")
def test_limits_are_on_and_a_patient_client_reads_everything() -> None:
    with Service(strict=True) as service:
        kinesis = client_that_tries(service, 10)
        kinesis.create_stream(**STREAM, ShardCount=1)
        wait_until(lambda: status_of(kinesis) == "ACTIVE", "active")
        data = [b"%d" % number for number in range(30)]
        put(kinesis, STREAM, *data)
        assert service.limits.enabled
        opened = iterator(kinesis, STREAM, 0, "TRIM_HORIZON")
        found: list[bytes] = []
        while len(found) < len(data):
            page, answer = read(kinesis, opened, Limit=20)
            found += page
            opened = answer["NextShardIterator"]
        assert found == data


@pytest.mark.req("E-01")
def test_an_option_has_precedence_over_strict() -> None:
    with Service(strict=True, limits=False, status_delay_seconds=0, empty_page_every=0) as service:
        assert not service.limits.enabled
        assert (service.settings.status_delay_ms, service.settings.empty_page_every) == (0, 0)
        assert service.settings.stale_listing_one_in
    with Service() as service:
        settings = service.settings
        assert (settings.stale_listing_one_in, settings.cut_answer_one_in) == (0, 0)


@pytest.mark.req("E-01")
def test_the_command_has_the_switch() -> None:
    command = [sys.executable, "-c", "from shardline.cli import main; main()", "local"]
    options = ["--port", "0", "--strict", "--seed", "7", "--stream", "orders:2", "--json"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        process.terminate()
    assert ready["limits"]
    assert ready["streams"] == [{"name": "orders", "open_shards": 2}]
