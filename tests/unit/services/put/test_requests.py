"""PutRecords requests after the first: signed anew, and their refusals as botocore reads them."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from shardline.errors import StreamNotFound
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience
from shardline.services.put.requests import PutClient
from shardline.services.wire.handler import IncompleteAnswer, answer_in
from tests.unit.services.http_answers import KEY, REGION, SECRET, Session, signature_of, text

ACCEPTED = b'{"FailedRecordCount":0,"Records":[{"SequenceNumber":"7","ShardId":"s"}]}'
MISSING = b'{"__type":"ResourceNotFoundException","message":"no stream"}'


def answering(
    monkeypatch: pytest.MonkeyPatch, *answers: tuple[int, bytes, int]
) -> tuple[PutClient, Session]:
    """Return a client whose first call is accepted, and what it sends."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    client = make_client("kinesis", Access(REGION))
    session = Session((200, ACCEPTED, len(ACCEPTED)), *answers)
    client._endpoint.http_session = session
    client.meta.events.register(
        "before-call.kinesis", lambda **_: session.built.append("PutRecords")
    )
    return PutClient(client, {"StreamName": "orders"}), session


def test_later_requests_are_copies_with_their_own_body_and_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, session = answering(monkeypatch, (200, ACCEPTED, len(ACCEPTED)))
    bodies = [json.dumps({"StreamName": "orders", "Records": [n]}).encode() for n in range(2)]
    results = [answer_in(client.put_records(body=body)) for body in bodies]
    assert [each.sequence_number for (each,) in results] == ["7", "7"]
    first, second = session.sent
    assert session.built == ["PutRecords"], "botocore builds the first request only"
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
