"""An answer is whole or it is an error that is retried, for every operation and client."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.positions import TRIM_HORIZON
from shardline.errors import ServiceUnreachable
from shardline.leases.dynamodb import DynamoLeaseTable
from shardline.leases.port import TableUnavailable
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience
from shardline.services.connection import connect
from shardline.services.wire import cbor
from tests.unit.services.raw_server import RawServer, cut, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.port import StreamService

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/users/stream/2026-11-15T00:00:00.000"
KINESIS_SHARD = {
    "ShardId": "shardId-000000000000",
    "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "9"},
    "SequenceNumberRange": {"StartingSequenceNumber": "1"},
}
DYNAMODB_STREAM = {
    "StreamArn": ARN,
    "StreamLabel": "2026-11-15T00:00:00.000",
    "StreamStatus": "ENABLED",
    "TableName": "users",
    "CreationRequestDateTime": 1.8e9,
    "Shards": [{"ShardId": "shardId-1", "SequenceNumberRange": {"StartingSequenceNumber": "1"}}],
}
WHOLE: dict[str, Any] = {
    "ListShards": {"Shards": [KINESIS_SHARD]},
    "DescribeStreamSummary": {
        "StreamDescriptionSummary": {
            "StreamName": "orders",
            "StreamARN": "arn",
            "StreamStatus": "ACTIVE",
            "RetentionPeriodHours": 24,
            "StreamCreationTimestamp": 1.8e9,
        }
    },
    "GetShardIterator": {"ShardIterator": "A" * 80},
    "GetRecords": {"Records": [], "NextShardIterator": "A" * 80},
    "DescribeStream": {"StreamDescription": DYNAMODB_STREAM},
    "ListStreams": {"Streams": [DYNAMODB_STREAM]},
}
ASKED: dict[str, tuple[str, Callable[[StreamService], object]]] = {
    "ListShards": ("kinesis://orders", lambda service: service.list_shards()),
    "DescribeStreamSummary": ("kinesis://orders", lambda service: service.describe()),
    "GetShardIterator": ("kinesis://orders", lambda service: service.open("s", TRIM_HORIZON)),
    "GetRecords": ("kinesis://orders", lambda service: service.read("A", 10)),
    "DescribeStream": (f"dynamodb://{ARN}", lambda service: service.list_shards()),
    "ListStreams": ("dynamodb://users", lambda service: service._table_arns()),  # type: ignore[attr-defined]
}
RECORD = {"Data": "YQ==", "PartitionKey": "k", "SequenceNumber": "1"}
NOT_WHOLE: dict[str, bytes] = {
    "an object": b"{}",
    "another object": b'{"message":"upstream restarting"}',
    "a page of a proxy": b"<html>502 Bad Gateway</html>",
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "half of it": b'{"Records":[{"Data":"YQ==","Part',
    "bad UTF-8": b'{"Records":[{"Data":"YQ==","PartitionKey":"\xff","SequenceNumber":"1",'
    b'"ApproximateArrivalTimestamp":1}],"Shards":[{"ShardId":"\xff"}],"ShardIterator":"\xff"}',
    "null members": json.dumps(
        dict.fromkeys(
            ["Shards", "StreamDescriptionSummary", "ShardIterator", "Records", "StreamDescription"]
        )
    ).encode(),
    "wrong types": b'{"Shards":{"a":1},"StreamDescriptionSummary":[],"ShardIterator":5,'
    b'"Records":{},"StreamDescription":7,"Streams":"x"}',
    "bad numbers": json.dumps(
        {
            "Shards": [KINESIS_SHARD | {"HashKeyRange": {"StartingHashKey": "x"}}],
            "Records": [RECORD | {"ApproximateArrivalTimestamp": 1e200}],
            "StreamDescription": DYNAMODB_STREAM | {"CreationRequestDateTime": 1e300},
        }
    ).encode(),
    "deep brackets": b'{"Records":' + b"[" * 100_000,
}


def tried_twice(server: RawServer, address: str, wire: str = "json") -> StreamService:
    patience = Patience(total_seconds=5, sleep=lambda _: None, chance=lambda: 0)
    return connect(address, Access(endpoint_url=server.url), patience=patience, wire=wire)


@pytest.mark.case("X-09", "X-27")
@pytest.mark.parametrize("operation", ASKED)
def test_what_is_no_answer_is_asked_for_again(operation: str) -> None:
    address, ask = ASKED[operation]
    good = whole(WHOLE[operation])
    with RawServer(good) as server:
        service = tried_twice(server, address)
        for name, body in NOT_WHOLE.items():
            server.answers = [whole(body), good]
            server.operations.clear()
            assert ask(service)
            assert server.operations == [operation, operation], name


@pytest.mark.case("X-27")
@pytest.mark.parametrize("operation", ASKED)
def test_an_answer_that_is_cut_is_asked_for_again(operation: str) -> None:
    address, ask = ASKED[operation]
    body = json.dumps(WHOLE[operation]).encode()
    with RawServer(whole(body)) as server:
        service = tried_twice(server, address)
        for share, reset in itertools.product((0, 0.5), (False, True)):
            server.answers = [cut(body, share, reset=reset), whole(body)]
            server.operations.clear()
            assert ask(service)
            assert server.operations == [operation, operation], (share, reset)


@pytest.mark.case("X-27")
@pytest.mark.parametrize("body", [b"\xa0", b"\xa1gRecords", cbor.encode({"Records": [1]})])
def test_what_is_no_answer_in_cbor_is_asked_for_again(body: bytes) -> None:
    good = whole(cbor.encode(WHOLE["GetRecords"]))
    with RawServer(whole(body), good) as server:
        page = tried_twice(server, "kinesis://orders", "cbor").read("A", 10)
        assert page.next_iterator == "A" * 80
        assert len(server.operations) == 2


@pytest.mark.case("X-27")
def test_what_never_becomes_an_answer_is_said_in_one_line() -> None:
    with RawServer(whole(b"<html>\n502\n</html>")) as server:
        service = connect(
            "kinesis://orders",
            Access(endpoint_url=server.url),
            patience=Patience(total_seconds=0),
        )
        with pytest.raises(ServiceUnreachable, match="no complete answer") as caught:
            service.list_shards()
    assert "\n" not in str(caught.value)
    assert "502" in str(caught.value)


ITEM = json.dumps({"Item": {"n": {"N": "1"}, "text": {"S": "x" * 200}}}).encode()


@pytest.mark.case("X-27")
@pytest.mark.parametrize(
    "answer",
    [
        cut(ITEM, 0.5),
        cut(ITEM, 0),
        cut(b"{}" + b" " * 8, 0.2),  # what arrived looks whole
        whole(ITEM[:-3]),
        whole(b""),
        whole(b'{"a":"\xff"}'),
    ],
)
def test_a_lease_row_whose_answer_is_cut_is_not_taken_for_missing(answer: Any) -> None:
    with RawServer(answer) as server:
        table = DynamoLeaseTable("leases", Access(endpoint_url=server.url), attempts=1)
        with pytest.raises(TableUnavailable):
            table.read_header("app", "orders")


@pytest.mark.case("X-27")
@pytest.mark.parametrize("body", [b"{}", b'{"Items":null}', b'{"Items":5}', b'{"Items":{}}'])
def test_a_page_of_lease_rows_without_items_is_not_taken_for_an_empty_one(body: bytes) -> None:
    with RawServer(whole(body)) as server:
        table = DynamoLeaseTable("leases", Access(endpoint_url=server.url), attempts=1)
        with pytest.raises(TableUnavailable, match="Items"):
            table.scan_rows("app", "orders", None, 10)


@pytest.mark.case("X-27")
@pytest.mark.parametrize("body", [b"{}", b'{"Attributes":null}', b'{"Attributes":[]}'])
def test_a_write_of_a_lease_row_whose_answer_lacks_the_row_is_not_known(body: bytes) -> None:
    with RawServer(whole(body)) as server:
        table = DynamoLeaseTable("leases", Access(endpoint_url=server.url), attempts=1)
        with pytest.raises(TableUnavailable):
            table.stop_run("app", "run")
        with pytest.raises(TableUnavailable):
            table.read_rows("app", "orders", ["shardId-0"])


def test_an_item_that_is_not_there_is_a_whole_answer() -> None:
    with RawServer(whole(b"{}")) as server:
        client = make_client("dynamodb", Access(endpoint_url=server.url))
        calls = Calls(client, "dynamodb://users", Patience(total_seconds=0))
        assert "Item" not in calls.call("get_item", TableName="users", Key={"id": {"S": "a"}})
