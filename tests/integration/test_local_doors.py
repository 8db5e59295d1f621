"""Who may talk to the embedded service, and what it does with input that makes no sense."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

import pytest

from shardline.local import Service
from shardline.local.kinesis.requests import _SHAPES
from shardline.services.wire import cbor
from tests.integration.kinesis_calls import SIGNED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JSON = "application/x-amz-json-1.1"
LIST_STREAMS = {"X-Amz-Target": "Kinesis_20131202.ListStreams", "Content-Type": JSON, **SIGNED}
ADVANCE = "/_shardline/clock/advance"
WEIRD: list[Any] = [
    *(True, 0, -1, 10**40, 1.5, "", "x" * 3000, "\x00", "é\ud7ff", [], {}, [[]], [{}]),
    *({"": ""}, {"a": {"b": []}}, [None], None),
]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as service:
        service.create_stream("orders", 1)
        yield service


def send(
    service: Service, path: str, body: bytes, headers: dict[str, str], method: str = "POST"
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


# --- web pages --------------------------------------------------------------------------------


@pytest.mark.req("E-03")
@pytest.mark.parametrize(
    "foreign",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}],
    ids=str,
)
def test_a_page_of_another_site_neither_reads_nor_changes_anything(
    service: Service, foreign: dict[str, str]
) -> None:
    before = service.clock.now_ms()
    control = {"Content-Type": "application/json"} | foreign
    status, headers, _ = send(service, ADVANCE, b'{"seconds": 90000}', control)
    assert status == 403
    assert "Access-Control-Allow-Origin" not in headers
    status, headers, body = send(service, "/", b"{}", LIST_STREAMS | foreign)
    assert status == 403
    assert b"orders" not in body
    assert "Access-Control-Allow-Origin" not in headers
    preflight = {"Access-Control-Request-Method": "POST"} | foreign
    status, headers, _ = send(service, "/", b"", preflight, "OPTIONS")
    assert status == 403
    assert "Access-Control-Allow-Origin" not in headers
    assert service.clock.now_ms() < before + 60_000


@pytest.mark.req("E-03")
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_control_call_must_be_json(service: Service, content_type: str) -> None:
    before = service.clock.now_ms()
    headers = {"Content-Type": content_type}
    status, _, body = send(service, ADVANCE, b'{"seconds": 90000}', headers)
    assert (status, json.loads(body)) == (415, {"error": "send Content-Type: application/json"})
    assert service.clock.now_ms() < before + 60_000


def test_a_page_of_this_machine_may_call(service: Service) -> None:
    origin = {"Origin": "http://localhost:3000"}
    status, headers, _ = send(service, "/", b"{}", LIST_STREAMS | origin)
    assert (status, headers["Access-Control-Allow-Origin"]) == (200, "*")


def test_other_host_names_are_admitted_by_an_option() -> None:
    with Service(allowed_hosts=["kinesis"]) as service:
        for host, expected in (("kinesis:4567", 200), ("other:4567", 403)):
            status, _, _ = send(service, "/", b"{}", LIST_STREAMS | {"Host": host})
            assert status == expected


# --- values -----------------------------------------------------------------------------------


@pytest.mark.req("E-04")
@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("clock/advance", {"seconds": 1e15}),
        ("clock/advance", {"seconds": -1}),
        ("clock/advance", {"seconds": "90000"}),
        ("clock/advance", {"seconds": True}),
        ("clock/advance", {}),
        ("clock/advance", {"seconds": 1, "more": 1}),
        ("limits", {"enabled": "no"}),
        ("settings", {"status_delay_ms": 1e15}),
        ("settings", {"empty_page_every": -1}),
        ("settings", {"unknown": 1}),
        ("faults/add", {"kind": "cut", "times": 10**9}),
        ("faults/add", {"kind": "hang", "seconds": 1e9}),
        ("faults/add", {"kind": "cut", "probability": 2}),
        ("kinesis/reshard", {"StreamName": "orders", "TargetShardCount": 10**9}),
        ("kinesis/reshard", {"StreamName": [], "TargetShardCount": 1}),
        ("dynamodb/create_table", {"table": "users", "shards": 10**9}),
        ("dynamodb/put_change", {"table": 5}),
        ("nothing", {}),
    ],
)  # fmt: skip
def test_a_control_value_out_of_bounds_is_refused_in_one_line_and_not_journalled(
    tmp_path: Path, path: str, request_: dict[str, Any]
) -> None:
    file = tmp_path / "journal"
    headers = {"Content-Type": "application/json"}
    with Service(file=file) as service:
        service.create_stream("orders")
        body = json.dumps(request_).encode()
        status, _, answer = send(service, f"/_shardline/{path}", body, headers)
        assert status == 400
        assert len(json.loads(answer)["error"].splitlines()) == 1
        status, _, _ = send(service, "/", b"{}", LIST_STREAMS)
        assert status == 200
    with Service(file=file) as service:
        assert service.shard_counts() == {"orders": 1}


@pytest.mark.req("E-04")
@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"1e999", b"[]"])
def test_a_control_call_that_is_no_object_is_refused(service: Service, body: bytes) -> None:
    status, _, _ = send(service, ADVANCE, body, {"Content-Type": "application/json"})
    assert status == 400


@pytest.mark.req("E-02")
@pytest.mark.parametrize("operation", sorted(_SHAPES))
def test_no_value_of_a_member_makes_the_service_fail(operation: str) -> None:
    """Send every member with values of every type, in JSON and in CBOR."""
    with Service() as service:
        service.create_stream("orders", 1)
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        target = {"X-Amz-Target": f"Kinesis_20131202.{operation}", **SIGNED}
        for member in _SHAPES[operation].members:
            for value in WEIRD:
                request = {"StreamName": "orders", "ShardId": "shardId-0", member: value}
                encoded = [(JSON, json.dumps(request).encode())]
                if not (isinstance(value, int) and abs(value) >= 2**63):
                    encoded.append((cbor.CONTENT_TYPE, cbor.encode(request)))
                for content_type, body in encoded:
                    headers = target | {"Content-Type": content_type}
                    connection.request("POST", "/", body, headers)
                    answer = connection.getresponse()
                    text = answer.read()
                    assert answer.status in (200, 400), (member, value, text)
                    if operation == "SubscribeToShard":
                        assert answer.status == 400  # else it would go on for five minutes
        connection.close()


@pytest.mark.req("E-02")
@pytest.mark.parametrize(
    "target", ["Kinesis_20131202.PutRecords", "DynamoDBStreams_20120810.GetRecords"]
)
@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"Records":' + b"[" * 100_000, b"\xff\xfe", b"1e999", b"null", b'"\\ud800"'],
    ids=lambda body: body[:12].decode(errors="replace"),
)  # fmt: skip
def test_a_body_that_is_no_object_is_a_serialization_exception(
    service: Service, target: str, body: bytes
) -> None:
    headers = {"X-Amz-Target": target, "Content-Type": JSON, **SIGNED}
    status, _, answer = send(service, "/", body, headers)
    assert (status, json.loads(answer)) == (400, {"__type": "SerializationException"})


@pytest.mark.req("E-02")
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_does_not_decompress_is_refused(service: Service, encoding: str) -> None:
    packed = {"Content-Encoding": encoding}
    status, _, answer = send(service, "/", b"no archive", LIST_STREAMS | packed)
    assert status == 400, answer
    control = {"Content-Type": "application/json"} | packed
    status, _, answer = send(service, ADVANCE, b"no archive", control)
    assert status == 400, answer


@pytest.mark.req("E-02")
def test_a_signature_that_is_no_body_of_text_is_refused(service: Service) -> None:
    headers = LIST_STREAMS | {"Authorization": "AWS4 \xff\xfe"}
    status, _, answer = send(service, "/", b"{}", headers)
    assert (status, json.loads(answer)["__type"]) == (400, "IncompleteSignatureException")


@pytest.mark.req("E-02")
def test_a_client_that_leaves_within_its_body_is_no_error_of_the_service(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    for path in ("/", ADVANCE):
        with socket.create_connection(("127.0.0.1", service.port)) as leaving:
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            leaving.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
            time.sleep(0.1)
    assert send(service, "/", b"{}", LIST_STREAMS)[0] == 200
    time.sleep(0.1)
    assert "Error handling request" not in caplog.text


@pytest.mark.req("E-02")
@pytest.mark.parametrize(
    "operation", ["ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"]
)
def test_no_value_makes_the_embedded_dynamodb_streams_fail(
    service: Service, operation: str
) -> None:
    target = f"DynamoDBStreams_20120810.{operation}"
    headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0", **SIGNED}
    for member in ("StreamArn", "ShardId", "ShardIterator", "Limit", "ShardFilter", "TableName"):
        for value in WEIRD:
            status, _, answer = send(service, "/", json.dumps({member: value}).encode(), headers)
            assert status in (200, 400), (member, value, answer)
