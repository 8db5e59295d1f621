"""GetRecords requests after the first: signed anew, in JSON and CBOR, and read as the first is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import pytest

from shardline.errors import IteratorExpired, ServiceUnreachable, Throttled
from shardline.services.access import Access, make_client
from shardline.services.addresses import parse_address
from shardline.services.calls import Patience
from shardline.services.kinesis import KinesisStream
from shardline.services.wire import cbor
from tests.unit.services.http_answers import KEY, REGION, SECRET, Session, signature_of, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.errors import ShardlineError

PAGE = {"Records": [], "NextShardIterator": "next", "MillisBehindLatest": 7}
CODES: dict[str, tuple[type[ShardlineError], int]] = {
    "ExpiredIteratorException": (IteratorExpired, 400),
    "ProvisionedThroughputExceededException": (Throttled, 400),
    "InternalFailure": (ServiceUnreachable, 500),
}
WIRES: dict[str, Callable[[object], bytes]] = {"json": msgspec.json.encode, "cbor": cbor.encode}


def reading(
    monkeypatch: pytest.MonkeyPatch, wire: str, *answers: tuple[int, bytes, int]
) -> tuple[KinesisStream, Session]:
    """Return a stream whose first read has succeeded, and what it sends."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    client = make_client("kinesis", Access(REGION))
    body = WIRES[wire](PAGE)
    session = Session((200, body, len(body)), *answers)
    client._endpoint.http_session = session
    client.meta.events.register(
        "before-call.kinesis", lambda **_: session.built.append("GetRecords")
    )
    address, patience = parse_address("kinesis://orders"), Patience(total_seconds=0)
    stream = KinesisStream(client, address, patience, wire=wire)
    stream.read("first", 10)
    return stream, session


@pytest.mark.parametrize("wire", WIRES)
def test_later_reads_are_copies_with_their_own_body_and_signature(
    monkeypatch: pytest.MonkeyPatch, wire: str
) -> None:
    body = WIRES[wire](PAGE)
    stream, session = reading(monkeypatch, wire, (200, body, len(body)))
    page = stream.read("second", 20)
    assert (page.next_iterator, page.behind_ms, page.records.num_rows) == ("next", 7, 0)
    assert page.service_time == datetime(2026, 11, 15, 12, tzinfo=UTC)
    first, second = session.sent
    assert session.built == ["GetRecords"], "botocore builds the first request only"
    decode = cbor.decode if wire == "cbor" else msgspec.json.decode
    assert decode(first.body) == {"ShardIterator": "first", "Limit": 10}
    assert decode(second.body) == {"ShardIterator": "second", "Limit": 20}
    assert first.url == second.url == f"https://kinesis.{REGION}.amazonaws.com/"
    for name in ("X-Amz-Target", "Content-Type", "User-Agent"):
        assert text(first.headers[name]) == text(second.headers[name])
    for request in session.sent:
        assert text(request.headers["Authorization"]).endswith(signature_of(request))
        assert int(request.headers["Content-Length"]) == len(request.body)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("code", CODES)
def test_a_refusal_is_read_as_that_of_the_first(
    monkeypatch: pytest.MonkeyPatch, wire: str, code: str
) -> None:
    error, status = CODES[code]
    body = WIRES[wire]({"__type": code, "message": "no"})
    stream, _ = reading(monkeypatch, wire, (status, body, len(body)))
    with pytest.raises(error, match=code):
        stream.read("second", 10)


@pytest.mark.parametrize("wire", WIRES)
def test_a_page_that_was_cut_is_no_page(monkeypatch: pytest.MonkeyPatch, wire: str) -> None:
    body = WIRES[wire](PAGE)
    stream, _ = reading(monkeypatch, wire, (200, body[:-2], len(body)))
    with pytest.raises(ServiceUnreachable, match="bytes arrived"):
        stream.read("second", 10)
