"""The embedded service in CBOR: what it says is what it says in JSON."""

from __future__ import annotations

import http.client
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.positions import TRIM_HORIZON
from shardline.errors import ConfigurationError, StreamNotFound
from shardline.local import Service
from shardline.services.access import Access
from shardline.services.cbor_client import use_cbor
from shardline.services.connection import connect
from shardline.services.cursor import ShardCursor
from shardline.services.wire import cbor
from tests.integration.kinesis_calls import SIGNED

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def client(service: Service) -> Any:
    client = service.client()
    use_cbor(client, "kinesis")
    return client


def call(service: Service, target: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    headers = {"X-Amz-Target": target, "Content-Type": content_type, **SIGNED}
    connection.request("POST", "/", body, headers)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Type"], answer.read()


def without_metadata(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def test_every_answer_is_the_same_in_both_languages(service: Service, client: Any) -> None:
    plain = service.client()
    client.create_stream(StreamName="both", ShardCount=2)
    data = [b"", b"\x00\xff" * 200, "ключ".encode()]
    for n, each in enumerate(data):
        writer = client if n % 2 else plain
        writer.put_record(StreamName="both", PartitionKey=f"key-{n}", Data=each)
    client.put_records(
        StreamName="both", Records=[{"PartitionKey": "a", "Data": b"\xff", "ExplicitHashKey": "0"}]
    )
    for operation, parameters in (
        ("describe_stream", {"StreamName": "both"}),
        ("describe_stream_summary", {"StreamName": "both"}),
        ("list_shards", {"StreamName": "both"}),
        ("list_streams", {}),
        ("describe_limits", {}),
    ):
        answers = [getattr(each, operation)(**parameters) for each in (client, plain)]
        assert without_metadata(answers[0]) == without_metadata(answers[1])
    read: list[bytes] = []
    for shard in ("shardId-000000000000", "shardId-000000000001"):
        start = {"StreamName": "both", "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        pages = [
            each.get_records(ShardIterator=each.get_shard_iterator(**start)["ShardIterator"])
            for each in (client, plain, client)
        ]
        assert pages[0]["Records"] == pages[1]["Records"] == pages[2]["Records"]
        read += [record["Data"] for record in pages[0]["Records"]]
    assert sorted(read) == sorted([*data, b"\xff"])


def test_a_time_is_sent_to_the_millisecond(service: Service, client: Any) -> None:
    client.create_stream(StreamName="times", ShardCount=1)
    client.put_record(StreamName="times", PartitionKey="a", Data=b"1")
    arrived = service.clock.now()
    service.clock.advance(1)
    client.put_record(StreamName="times", PartitionKey="a", Data=b"2")
    shard = {"StreamName": "times", "ShardId": "shardId-000000000000"}
    start = datetime.fromtimestamp(arrived.timestamp(), UTC) + timedelta(milliseconds=900)
    iterator = client.get_shard_iterator(**shard, ShardIteratorType="AT_TIMESTAMP", Timestamp=start)
    [record] = client.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
    assert record["Data"] == b"2"


def test_refusals_come_back_as_the_exceptions_of_the_service(client: Any) -> None:
    with pytest.raises(client.exceptions.ResourceNotFoundException, match="nowhere"):
        client.describe_stream_summary(StreamName="nowhere")
    with pytest.raises(client.exceptions.InvalidArgumentException):
        client.get_records(ShardIterator="bad")


def test_what_goes_over_the_wire_is_cbor(service: Service) -> None:
    target, kind = "Kinesis_20131202.ListStreams", cbor.CONTENT_TYPE
    status, answered_in, body = call(service, target, cbor.encode({"Limit": 1}), kind)
    assert (status, answered_in) == (200, kind)
    assert "StreamNames" in cbor.decode(body)
    for bad in (b"\xff", b"\x01", b"{}"):
        status, answered_in, body = call(service, target, bad, kind)
        assert (status, answered_in) == (400, kind)
        assert cbor.decode(body)["__type"] == "SerializationException"


def test_tables_speak_json_only(service: Service) -> None:
    target = "DynamoDBStreams_20120810.ListStreams"
    status, _, body = call(service, target, b"\xa0", cbor.CONTENT_TYPE)
    assert status == 400
    assert "send JSON" in cbor.decode(body)["Message"]


def test_a_stream_is_read_in_cbor(service: Service) -> None:
    client = service.client()
    client.create_stream(StreamName="read", ShardCount=1)
    records = [{"PartitionKey": f"k{n}", "Data": bytes([n])} for n in range(100)]
    client.put_records(StreamName="read", Records=records)
    languages = []
    streams = [connect("kinesis://read", Access(endpoint_url=service.endpoint_url), wire="json")]
    streams.append(
        connect("kinesis://read", Access(endpoint_url=service.endpoint_url), wire="cbor")
    )
    for stream in streams:
        cursor = ShardCursor(stream, "shardId-000000000000", TRIM_HORIZON)
        languages.append(cursor.read(1000).records)
        stream.close()
    assert languages[0].num_rows == 100
    assert languages[0].equals(languages[1])


def test_a_wire_that_is_not_spoken_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="wire='json' or wire='cbor'"):
        connect("kinesis://a", wire="xml")
    with pytest.raises(ConfigurationError, match="leave it out"):
        connect("dynamodb://abc", wire="cbor")


def test_a_missing_stream_is_named_in_cbor_too(service: Service) -> None:
    stream = connect("kinesis://missing", Access(endpoint_url=service.endpoint_url), wire="cbor")
    with pytest.raises(StreamNotFound, match="kinesis://missing"):
        stream.describe()
    stream.close()
