"""Dead letters in a table of DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest

from shardline.consumer.dead_letters import open_dead_letters
from shardline.consumer.letters.letter import Origin
from shardline.local import Service
from shardline.observation.dead_letter_reader import open_letters
from shardline.services.access import Access
from tests.unit.consumer.letters.test_folder import batch
from tests.unit.consumer.letters.test_stream import large

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.consumer.letters.letter import Letter
    from tests.servers import Endpoint


@pytest.fixture(scope="module")
def shardline_local() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as service:
        yield service


@pytest.fixture(params=["shardline_local", "dynamodb_local"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server: Endpoint | Service = request.getfixturevalue(request.param)
    url = server.endpoint_url
    client = boto3.client("dynamodb", endpoint_url=url)
    client.create_table(
        TableName="letters",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
    yield client
    client.delete_table(TableName="letters")


def place() -> Any:
    elsewhere = Access(endpoint_url="http://127.0.0.1:1")  # of Kinesis
    return open_dead_letters("dynamodb://letters", elsewhere, origin=Origin("billing", "orders"))


def waiting() -> list[Letter]:
    return open_letters("dynamodb://letters", Access()).read_all().letters()


@pytest.mark.case("R-01")
def test_a_table_holds_each_record_once(table: Any) -> None:
    place().write(batch([1, 2]), "odd")
    place().write(batch([2, 3], delivery=8), "odd again")
    assert len(table.scan(TableName="letters")["Items"]) == 3
    assert [(x.sequence_number, x.reason) for x in waiting()] == [
        ("1", "odd"), ("2", "odd again"), ("3", "odd again"),
    ]  # fmt: skip


@pytest.mark.case("X-19")
def test_a_letter_of_any_size_finds_a_place_and_is_removed_whole(table: Any) -> None:
    sizes = [0, 250_000, 290_000, 400_000, 1_048_573]
    place().write(large(sizes), "odd")
    letters = waiting()
    assert [len(letter.payload) for letter in letters] == sizes
    place().remove(letters)
    assert table.scan(TableName="letters")["Count"] == 0


def test_a_letter_written_again_since_it_was_read_is_not_removed(table: Any) -> None:
    place().write(batch([1, 2]), "odd")
    read = waiting()
    place().write(batch([2], delivery=8), "odd again")
    place().remove(read)
    assert [(x.sequence_number, x.reason) for x in waiting()] == [("2", "odd again")]
