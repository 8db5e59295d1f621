"""Dead letters in a stream: any number, any size, and again what was refused."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from shardline.consumer.consumer import ShardBatch
from shardline.consumer.dead_letters import open_dead_letters
from shardline.consumer.letters.letter import Origin
from shardline.core.fences import Fence
from shardline.errors import ServiceError
from shardline.local.service import Service
from shardline.observation.dead_letter_reader import open_letters
from shardline.services.access import Access
from shardline.services.calls import Patience
from shardline.services.wire.columns import KINESIS_COLUMNS
from tests.unit.consumer.letters.test_folder import batch
from tests.unit.consumer.shard_pages import ARRIVED, SHARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shardline.consumer.letters.letter import Letter


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as running:
        running.client("kinesis").create_stream(StreamName="letters", ShardCount=2)
        yield running


def access(service: Service) -> Access:
    return Access("us-east-1", service.endpoint_url)


def place(service: Service, **options: Any) -> Any:
    origin = Origin("billing", "orders")
    return open_dead_letters("kinesis://letters", access(service), origin=origin, **options)


def waiting(service: Service) -> list[Letter]:
    reader = open_letters("kinesis://letters", access(service))
    found = reader.read_all()
    reader.close()
    assert not found.unreadable
    return found.letters()


def large(sizes: Sequence[int]) -> ShardBatch:
    rows = [
        {"partitionKey": "key", "data": b"\xff" * size, "sequenceNumber": str(number),
         "approximateArrivalTimestamp": ARRIVED}
        for number, size in enumerate(sizes)
    ]  # fmt: skip
    return ShardBatch(SHARD, Fence(4, 7), pa.RecordBatch.from_pylist(rows, KINESIS_COLUMNS))


@pytest.mark.case("R-01")
def test_a_stream_takes_any_number_and_what_it_refuses_is_put_again(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []
    box = place(service, patience=Patience(sleep=slept.append))
    service.faults.add("throttle", operation="PutRecords", times=1)
    with caplog.at_level(logging.WARNING):
        ids = box.write(batch(range(1203)), "odd")
    assert slept
    assert "trying again" in caplog.text
    letters = waiting(service)
    assert [int(letter.sequence_number) for letter in letters] == list(range(1203))
    assert ids == tuple(letter.id for letter in letters)


@pytest.mark.case("X-19")
def test_a_letter_of_any_size_finds_a_place(service: Service) -> None:
    service.limits.enabled = False  # sizes are tested here, and not the pace
    sizes = [0, 10, 660_000, 700_000, 900_000, 1_048_576 - 3]
    place(service).write(large(sizes), "odd")
    assert [len(letter.payload) for letter in waiting(service)] == sizes


def test_a_letter_that_was_redriven_waits_no_longer(service: Service) -> None:
    box = place(service)
    box.write(batch([1, 2, 3]), "odd")
    box.remove(waiting(service)[:2])
    assert [letter.sequence_number for letter in waiting(service)] == ["3"]


@pytest.mark.case("R-01")
def test_a_stream_that_is_not_there_is_an_error_of_one_line(service: Service) -> None:
    with pytest.raises(ServiceError, match=r"dead letters to kinesis://others.*not"):
        open_dead_letters("kinesis://others", access(service)).write(batch([1]), "odd")
