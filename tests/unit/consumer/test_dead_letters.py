"""What a consumer could not process is kept with its reason: in files, a stream, a table."""

from __future__ import annotations

import base64
import json
import logging
import stat
from typing import TYPE_CHECKING, Any

import pytest

from shardline.consumer.consumer import ShardBatch
from shardline.consumer.dead_letters import open_dead_letters
from shardline.core.fences import Fence
from shardline.errors import ConfigurationError, ServiceError
from shardline.local.service import Service
from shardline.services.access import Access
from shardline.services.calls import Patience
from tests.unit.spark.executor.shard_rows import page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NOWHERE = Access()


def batch(numbers: Sequence[int], shard_id: str = "shardId-000000000001") -> ShardBatch:
    return ShardBatch(shard_id, Fence(4, 703), page(shard_id, numbers))


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as running:
        yield running


@pytest.mark.case("R-01")
def test_files_hold_all_that_is_needed_to_process_it_later(tmp_path: Path) -> None:
    place = open_dead_letters(f"file://{tmp_path}/dead letters", NOWHERE)
    place.write(batch([1, 2]), "ValueError: nö")
    place.write(batch([3]), "KeyError: 'x'")
    place.write(batch([4], "../elsewhere"), "odd")
    folder = tmp_path / "dead letters"
    assert sorted(p.name for p in folder.iterdir()) == [
        "___elsewhere.jsonl", "shardId-000000000001.jsonl",
    ]  # fmt: skip
    letters = [
        json.loads(line)
        for line in (folder / "shardId-000000000001.jsonl").read_text().splitlines()
    ]
    assert [(x["id"], x["reason"]) for x in letters] == [
        ("shardId-000000000001/1/0", "ValueError: nö"),
        ("shardId-000000000001/2/0", "ValueError: nö"),
        ("shardId-000000000001/3/0", "KeyError: 'x'"),
    ]
    assert letters[0]["fence"] == [4, 703]
    record = letters[0]["record"]
    assert (record["partitionKey"], record["sequenceNumber"]) == ("key-1", "1")
    assert base64.b64decode(record["data"]["base64"]) == b"1"


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = open_dead_letters(f"file://{tmp_path}/file", NOWHERE)
    with pytest.raises(OSError, match="file"):
        place.write(batch([1]), "odd")
    assert stat.S_ISREG((tmp_path / "file").stat().st_mode)


@pytest.mark.case("R-01")
def test_a_stream_takes_any_number_and_what_it_refuses_is_put_again(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    client = service.client("kinesis")
    client.create_stream(StreamName="letters", ShardCount=1)
    connection = Access("us-east-1", service.endpoint_url)
    slept: list[float] = []
    place = open_dead_letters("kinesis://letters", connection, Patience(sleep=slept.append))
    service.faults.add("throttle", operation="PutRecords", times=1)
    with caplog.at_level(logging.WARNING):
        place.write(batch(range(1203)), "odd")
    assert slept
    assert "trying again" in caplog.text
    kept = _read_all(client, "letters")
    numbers = [int(letter["record"]["sequenceNumber"]) for letter in kept]
    assert sorted(numbers) == list(range(1203))


@pytest.mark.case("R-01")
def test_a_stream_that_is_not_there_is_an_error_of_one_line(service: Service) -> None:
    connection = Access("us-east-1", service.endpoint_url)
    with pytest.raises(ServiceError, match=r"dead letters to kinesis://letters.*not"):
        open_dead_letters("kinesis://letters", connection).write(batch([1]), "odd")


@pytest.mark.parametrize("to", ["", "letters", "file://relative/path", "kinesis://", "s3://bucket"])
def test_no_place_at_all_is_said_at_once(to: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write kinesis://STREAM, dynamodb://TABLE or"):
        open_dead_letters(to, NOWHERE)


def _read_all(client: Any, stream_name: str) -> list[dict[str, Any]]:
    iterator = client.get_shard_iterator(
        StreamName=stream_name,
        ShardId="shardId-000000000000",
        ShardIteratorType="TRIM_HORIZON",
    )["ShardIterator"]
    found: list[dict[str, Any]] = []
    while True:
        answer = client.get_records(ShardIterator=iterator)
        found.extend(json.loads(record["Data"]) for record in answer["Records"])
        iterator = answer["NextShardIterator"]
        if not answer["MillisBehindLatest"]:
            return found
