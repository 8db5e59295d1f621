"""Kinesis to the letter: AWS's own wording, HTTP answers and statuses.

Held against two servers that were written apart from each other. What an expected text says was
seen at AWS by the authors of kinesalite.
"""

from __future__ import annotations

import http.client
import json
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from shardline.local import Service
from shardline.services.wire import cbor
from tests.contract.reading import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVERS = ("shardline", "kinesalite")
JSON = "application/x-amz-json-1.1"
SIGNATURE = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b, Signature=c",
    "X-Amz-Date": "20260101T000000Z",
}
NUMBER = "class com.amazon.coral.value.json.numbers.TruncatingBigNumber"
BOOLEAN = "class java.lang.Boolean"
LIST = "Start of list found where not expected"
MAP = "Start of structure or map found where not expected."
NO_NAME = "Value null at 'streamName' failed to satisfy constraint: Member must not be null"
TAG_CHARACTERS = (
    "Some tags contain invalid characters. Valid characters: Unicode letters, digits, white space, "
    "_ . / = + - % @."
)

pytestmark = pytest.mark.parametrize("server", SERVERS)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Caller:
    """Makes calls that no SDK would let through."""

    def __init__(self, endpoint_url: str, stream: str) -> None:
        self._address = urlsplit(endpoint_url).netloc
        self.stream = stream

    def send(
        self, body: bytes = b"", method: str = "POST", path: str = "/", **headers: str
    ) -> Answer:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, given)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        found = {name.lower(): value for name, value in answer.headers.items()}
        kind = found.get("content-type", "")
        if kind == cbor.CONTENT_TYPE:
            return Answer(answer.status, found, cbor.decode(content) if content else None)
        if "json" in kind and content:
            return Answer(answer.status, found, json.loads(content))
        return Answer(answer.status, found, content.decode())

    def call(self, operation: str, **request: Any) -> Answer:
        target = f"Kinesis_20131202.{operation}"
        body = json.dumps(request).encode()
        return self.send(body, Content_Type=JSON, X_Amz_Target=target, **_underscored(SIGNATURE))

    def status(self, stream: str) -> str | None:
        description = self.call("DescribeStream", StreamName=stream).body
        if "StreamDescription" not in description:
            return None
        text: str = description["StreamDescription"]["StreamStatus"]
        return text


def _underscored(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Service]:
    with Service(status_delay_seconds=0.05) as service:
        yield service


@pytest.fixture
def caller(server: str, request: pytest.FixtureRequest) -> Iterator[Caller]:
    """A caller, and a new stream of three shards."""
    fixture = "embedded" if server == "shardline" else server
    caller = Caller(
        request.getfixturevalue(fixture).endpoint_url, f"protocol-{uuid.uuid4().hex[:8]}"
    )
    caller.call("CreateStream", StreamName=caller.stream, ShardCount=3)
    wait_until(lambda: caller.status(caller.stream) == "ACTIVE", "active")
    yield caller
    caller.call("DeleteStream", StreamName=caller.stream)


# --- types and constraints --------------------------------------------------------------------


@pytest.mark.req("E-02")
@pytest.mark.parametrize(
    ("operation", "member", "value", "message"),
    [
        ("GetRecords", "Limit", "23", "class java.lang.String can not be converted to an Integer"),
        ("GetRecords", "Limit", True, f"{BOOLEAN} can not be converted to an Integer"),
        ("GetRecords", "ShardIterator", 23, f"{NUMBER} can not be converted to an String"),
        ("GetRecords", "ShardIterator", [], LIST),
        ("GetRecords", "ShardIterator", {}, MAP),
        ("GetShardIterator", "Timestamp", "23",
         "class java.lang.String can not be converted to milliseconds since epoch"),
        ("PutRecord", "Data", 34.56, f"{NUMBER} can not be converted to a Blob"),
        ("PutRecord", "Data", "23456",
         "'23456' can not be converted to a Blob: Base64 encoded length is expected a multiple of "
         "4 bytes but found: 5"),
        ("PutRecord", "Data", "=+/=",
         "'=+/=' can not be converted to a Blob: Invalid Base64 character: '='"),
        ("PutRecord", "Data", "+/+=",
         "'+/+=' can not be converted to a Blob: Invalid last non-pad Base64 character dectected"),
        ("PutRecords", "Records", "23", "Expected list or null"),
        ("PutRecords", "Records", {}, MAP),
        ("PutRecords", "Records", ["23"], "Expected null"),
        ("PutRecords", "Records", [[]], LIST),
        ("AddTagsToStream", "Tags", 23, "Expected map or null"),
        ("AddTagsToStream", "Tags", {"a": True}, f"{BOOLEAN} can not be converted to an String"),
    ],
)  # fmt: skip
def test_a_wrong_type(
    caller: Caller, operation: str, member: str, value: Any, message: str
) -> None:
    answer = caller.call(operation, **{member: value})
    expected = {"__type": "SerializationException", "Message": message}
    assert (answer.status, answer.body) == (400, expected)


@pytest.mark.req("E-02")
@pytest.mark.parametrize(
    ("operation", "request_", "violations"),
    [
        ("GetRecords", {},
         ["Value null at 'shardIterator' failed to satisfy constraint: Member must not be null"]),
        ("GetRecords", {"ShardIterator": "", "Limit": 0},
         ["Value '0' at 'limit' failed to satisfy constraint: Member must have value greater "
          "than or equal to 1",
          "Value '' at 'shardIterator' failed to satisfy constraint: Member must have length "
          "greater than or equal to 1"]),
        ("GetRecords", {"ShardIterator": "a", "Limit": 100_000},
         ["Value '100000' at 'limit' failed to satisfy constraint: Member must have value less "
          "than or equal to 10000"]),
        ("DescribeStream", {}, [NO_NAME]),
        ("DescribeStream", {"StreamName": "a;b"},
         ["Value 'a;b' at 'streamName' failed to satisfy constraint: Member must satisfy regular "
          "expression pattern: [a-zA-Z0-9_.-]+"]),
        ("GetShardIterator", {"StreamName": "a", "ShardId": "a", "ShardIteratorType": "THERE"},
         ["Value 'THERE' at 'shardIteratorType' failed to satisfy constraint: Member must "
          "satisfy enum value set: [AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, "
          "AT_SEQUENCE_NUMBER, TRIM_HORIZON]"]),
        ("PutRecords", {"Records": []},
         [NO_NAME,
          "Value '[]' at 'records' failed to satisfy constraint: Member must have length greater "
          "than or equal to 1"]),
        ("PutRecords", {"StreamName": "a", "Records": [{"PartitionKey": "", "Data": ""}]},
         ["Value '' at 'records.1.member.partitionKey' failed to satisfy constraint: Member must "
          "have length greater than or equal to 1"]),
        ("CreateStream", {},
         [NO_NAME,
          "Value null at 'shardCount' failed to satisfy constraint: Member must not be null"]),
        ("SplitShard", {"StreamName": "a", "ShardToSplit": "b", "NewStartingHashKey": "x"},
         ["Value 'x' at 'newStartingHashKey' failed to satisfy constraint: Member must satisfy "
          "regular expression pattern: 0|([1-9]\\d{0,38})"]),
        ("AddTagsToStream", {"StreamName": "a", "Tags": {"a" * 129: ""}},
         [f"Value '{{{'a' * 129}=}}' at 'tags' failed to satisfy constraint: Map keys must satisfy "
          "constraint: [Member must have length less than or equal to 128, Member must have length "
          "greater than or equal to 1]"]),
    ],
)  # fmt: skip
def test_violated_constraints(
    caller: Caller, operation: str, request_: dict[str, Any], violations: list[str]
) -> None:
    answer = caller.call(operation, **request_)
    assert (answer.status, answer.body["__type"]) == (400, "ValidationException")
    errors = "error" if len(violations) == 1 else "errors"
    head, _, rest = answer.body["message"].partition(" detected: ")
    assert head == f"{len(violations)} validation {errors}"
    assert sorted(rest.split("; ")) == sorted(violations)


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "request_", "name", "message"),
    [
        ("ListShards", {}, "InvalidArgumentException",
         "Either NextToken or StreamName should be provided."),
        ("ListShards", {"StreamName": "STREAM", "NextToken": "a"}, "InvalidArgumentException",
         "NextToken and StreamName cannot be provided together."),
        ("DescribeStream", {"StreamName": "nowhere"}, "ResourceNotFoundException",
         "Stream nowhere under account 000000000000 not found."),
        ("GetShardIterator",
         {"StreamName": "nowhere", "ShardId": "any-7", "ShardIteratorType": "LATEST"},
         "ResourceNotFoundException",
         "Shard shardId-000000000007 in stream nowhere under account 000000000000 does not exist"),
        ("GetShardIterator",
         {"StreamName": "STREAM", "ShardId": "ABKLFD8", "ShardIteratorType": "LATEST"},
         "ResourceNotFoundException",
         "Could not find shard ABKLFD8 in stream STREAM under account 000000000000."),
        ("GetShardIterator",
         {"StreamName": "STREAM", "ShardId": "a-0", "ShardIteratorType": "AT_SEQUENCE_NUMBER"},
         "InvalidArgumentException",
         "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and "
         "StartingSequenceNumber or (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. "
         "Request specified AT_SEQUENCE_NUMBER and no StartingSequenceNumber."),
        ("GetShardIterator",
         {"StreamName": "STREAM", "ShardId": "shardId-0", "ShardIteratorType": "AT_TIMESTAMP"},
         "InvalidArgumentException",
         "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. Current "
         "request has no timestamp parameter."),
        ("GetRecords", {"ShardIterator": "nonsense"}, "InvalidArgumentException",
         "Invalid ShardIterator."),
        ("PutRecord",
         {"StreamName": "STREAM", "PartitionKey": "a", "Data": "", "ExplicitHashKey": str(2**128)},
         "InvalidArgumentException",
         "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified "
         f"value was {2**128}"),
        ("PutRecord",
         {"StreamName": "STREAM", "PartitionKey": "a", "Data": "",
          "SequenceNumberForOrdering": "9" * 56},
         "InvalidArgumentException",
         f"ExclusiveMinimumSequenceNumber {'9' * 56} used in PutRecord on stream STREAM under "
         "account 000000000000 is invalid."),
        ("SplitShard",
         {"StreamName": "STREAM", "ShardToSplit": "shard-0", "NewStartingHashKey": "1"},
         "InvalidArgumentException",
         "NewStartingHashKey 1 used in SplitShard() on shard shardId-000000000000 in stream STREAM "
         "under account 000000000000 is not both greater than one plus the shard's StartingHashKey "
         "0 and less than the shard's EndingHashKey 113427455640312821154458202477256070484."),
        ("MergeShards",
         {"StreamName": "STREAM", "ShardToMerge": "a-1", "AdjacentShardToMerge": "a-0"},
         "InvalidArgumentException",
         "Shards shardId-000000000001 and shardId-000000000000 in stream STREAM under account "
         "000000000000 are not an adjacent pair of shards eligible for merging"),
        ("IncreaseStreamRetentionPeriod", {"StreamName": "STREAM", "RetentionPeriodHours": 23},
         "InvalidArgumentException",
         "Minimum allowed retention period is 24 hours. Requested retention period (23 hours) is "
         "too short."),
        ("DecreaseStreamRetentionPeriod", {"StreamName": "STREAM", "RetentionPeriodHours": 25},
         "InvalidArgumentException",
         "Requested retention period (25 hours) for stream STREAM can not be longer than existing "
         "retention period (24 hours). Use IncreaseRetentionPeriod API."),
        ("AddTagsToStream", {"StreamName": "STREAM", "Tags": {"a;b": ""}},
         "InvalidArgumentException", TAG_CHARACTERS),
    ],
)  # fmt: skip
def test_a_refusal(
    caller: Caller, operation: str, request_: dict[str, Any], name: str, message: str
) -> None:
    given = {
        member: caller.stream if value == "STREAM" else value for member, value in request_.items()
    }
    answer = caller.call(operation, **given)
    expected = {"__type": name, "message": message.replace("STREAM", caller.stream)}
    assert (answer.status, answer.body) == (400, expected)


# --- statuses, tags ---------------------------------------------------------------------------


def test_a_stream_is_creating_then_active_then_deleting_then_gone(caller: Caller) -> None:
    name = f"{caller.stream}-2"
    caller.call("CreateStream", StreamName=name, ShardCount=1)
    assert caller.status(name) == "CREATING"
    answer = caller.call("PutRecord", StreamName=name, PartitionKey="a", Data="")
    assert answer.body["__type"] == "ResourceNotFoundException"
    answer = caller.call(
        "SplitShard", StreamName=name, ShardToSplit="shardId-0", NewStartingHashKey="2"
    )
    assert answer.body == {
        "__type": "ResourceInUseException",
        "message": f"Stream {name} under account 000000000000 not ACTIVE, instead in state "
        "CREATING",
    }
    wait_until(lambda: caller.status(name) == "ACTIVE", "active")
    assert caller.call("DeleteStream", StreamName=name).body == ""
    assert caller.status(name) == "DELETING"
    wait_until(lambda: caller.status(name) is None, "deleted")


def test_tags_are_added_listed_and_removed(caller: Caller) -> None:
    stream = {"StreamName": caller.stream}
    assert caller.call("ListTagsForStream", **stream).body == {"Tags": [], "HasMoreTags": False}
    caller.call("AddTagsToStream", **stream, Tags={"b": "1", "a": "ü0 _./=+-@", "c": ""})
    caller.call("AddTagsToStream", **stream, Tags={"b": "2"})
    answer = caller.call("ListTagsForStream", **stream, Limit=2)
    tags = [{"Key": "a", "Value": "ü0 _./=+-@"}, {"Key": "b", "Value": "2"}]
    assert answer.body == {"Tags": tags, "HasMoreTags": True}
    caller.call("RemoveTagsFromStream", **stream, TagKeys=["a", "b", "missing"])
    answer = caller.call("ListTagsForStream", **stream, ExclusiveStartTagKey="a")
    assert answer.body == {"Tags": [{"Key": "c", "Value": ""}], "HasMoreTags": False}


# --- HTTP -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_other_methods_are_denied_in_xml(caller: Caller, method: str) -> None:
    answer = caller.send(method=method)
    assert answer.status == 403
    assert answer.body == (
        "<AccessDeniedException>\n  <Message>Unable to determine service/operation name to be "
        "authorized</Message>\n</AccessDeniedException>\n"
    )
    assert "content-type" not in answer.headers
    assert "x-amzn-requestid" in answer.headers


@pytest.mark.parametrize(
    ("headers", "body", "status", "expected"),
    [
        ({}, b"", 400, {"__type": "UnknownOperationException"}),
        ({"X_Amz_Target": "Kinesis_20131202.ListStreams"}, b"", 400,
         {"__type": "SerializationException"}),
        ({"Content_Type": JSON}, b"", 400, {"__type": "UnknownOperationException"}),
        ({"Content_Type": JSON, "X_Amz_Target": "Kinesis_20131202.Whatever"}, b"{}", 400,
         {"__type": "UnknownOperationException"}),
        ({"Content_Type": JSON, "X_Amz_Target": "Kinesis_20131202.ListStreams"}, b"hello", 400,
         {"__type": "SerializationException"}),
        ({"Content_Type": "text/plain", "X_Amz_Target": "Kinesis_20131202.ListStreams"}, b"{}",
         404, "<UnknownOperationException/>\n"),
        ({"Content_Type": "application/json", "X_Amz_Target": "Kinesis_20131202.ListStreams"},
         b"{}", 404,
         {"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"},
          "Version": "1.0"}),
        ({"Content_Type": JSON, "X_Amz_Target": "Kinesis_20131202.ListStreams"}, b"{}", 400,
         {"__type": "MissingAuthenticationTokenException",
          "message": "Missing Authentication Token"}),
        ({"Content_Type": JSON, "X_Amz_Target": "Kinesis_20131202.ListStreams",
          "Authorization": "AWS4- Signature=b,Credential=a", "Date": "a"}, b"{}", 400,
         {"__type": "IncompleteSignatureException",
          "message": "Authorization header requires 'SignedHeaders' parameter. "
          "Authorization=AWS4- Signature=b,Credential=a"}),
    ],
)  # fmt: skip
def test_a_request_that_is_no_call(
    caller: Caller, headers: dict[str, str], body: bytes, status: int, expected: Any
) -> None:
    answer = caller.send(body, **headers)
    assert (answer.status, answer.body) == (status, expected)


def test_a_page_may_ask_before_it_calls(caller: Caller) -> None:
    answer = caller.send(
        method="OPTIONS",
        Origin="http://localhost",
        Access_Control_Request_Headers="a, b, c",
        Access_Control_Request_Method="POST",
    )
    assert answer.status == 200
    expected = {
        "access-control-allow-origin": "*",
        "access-control-allow-headers": "a, b, c",
        "access-control-allow-methods": "POST",
        "access-control-max-age": "172800",
        "content-length": "0",
    }
    assert expected.items() <= answer.headers.items()
    assert "x-amz-id-2" not in answer.headers
