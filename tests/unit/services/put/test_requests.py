"""PutRecords requests after the first: signed anew, and their refusals as botocore reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from shardline.errors import StreamNotFound
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience
from shardline.services.put.requests import PutClient
from shardline.services.wire.handler import IncompleteAnswer

ACCEPTED = b'{"FailedRecordCount":0,"Records":[{"SequenceNumber":"7","ShardId":"s"}]}'
MISSING = b'{"__type":"ResourceNotFoundException","message":"no stream"}'


class Answer:
    """What urllib3 hands out."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> list[bytes]:
        return [self._body]


class Session:
    """An HTTP session that answers with the next of its answers, and keeps what was sent."""

    def __init__(self, *answers: tuple[int, bytes, int]) -> None:
        self.answers = list(answers)
        self.sent: list[Any] = []

    def send(self, request: Any) -> AWSResponse:
        self.sent.append(request)
        status, body, promised = self.answers.pop(0)
        headers = {"content-length": str(promised)}
        return AWSResponse(request.url, status, headers, Answer(body))

    def close(self) -> None:
        """No-op: there are no connections."""


def answering(
    monkeypatch: pytest.MonkeyPatch, *answers: tuple[int, bytes, int]
) -> tuple[PutClient, Session]:
    """Return a client whose first call is accepted, and what it sends."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    client = make_client("kinesis", Access("eu-west-1"))
    session = Session((200, ACCEPTED, len(ACCEPTED)), *answers)
    client._endpoint.http_session = session
    return PutClient(client, {"StreamName": "orders"}), session


def signature_of(request: Any) -> str:
    """Return the signature that a sent request should have."""
    signed = ("x-amz-target", "content-type", "x-amz-date")
    headers = {name: text(request.headers[name]) for name in signed}
    made = AWSRequest("POST", request.url, headers, request.body)
    made.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials("key", "secret"), "kinesis", "eu-west-1")
    return str(auth.signature(auth.string_to_sign(made, auth.canonical_request(made)), made))


def text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def test_later_requests_are_copies_with_their_own_body_and_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, session = answering(monkeypatch, (200, ACCEPTED, len(ACCEPTED)))
    bodies = [json.dumps({"StreamName": "orders", "Records": [n]}).encode() for n in range(2)]
    results = [client.put_records(body=body)["Results"] for body in bodies]
    assert [each.sequence_number for (each,) in results] == ["7", "7"]
    first, second = session.sent
    assert [first.body, second.body] == bodies
    assert first.url == second.url == "https://kinesis.eu-west-1.amazonaws.com/"
    for name in ("X-Amz-Target", "Content-Type", "User-Agent"):
        assert text(first.headers[name]) == text(second.headers[name])
    for request in session.sent:
        assert text(request.headers["Authorization"]).endswith(signature_of(request))
        assert int(request.headers["Content-Length"]) == len(request.body)


def test_a_refusal_is_read_as_botocore_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = answering(monkeypatch, *[(400, MISSING, len(MISSING))] * 2)
    client.put_records(body=b"{}")
    with pytest.raises(ClientError, match="ResourceNotFoundException") as caught:
        client.put_records(body=b"{}")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    with pytest.raises(StreamNotFound):
        Calls(client, "kinesis://orders", Patience()).call("put_records", body=b"{}")


def test_an_answer_that_was_cut_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = answering(monkeypatch, (200, ACCEPTED[:-2], len(ACCEPTED)))
    client.put_records(body=b"{}")
    with pytest.raises(IncompleteAnswer, match="bytes arrived"):
        client.put_records(body=b"{}")
