"""Each whole answer has a deadline, whatever the server does, over real sockets.

The servers here do answer in the end. A call that has no deadline succeeds, and its test fails.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from shardline.errors import ServiceUnreachable
from shardline.services import deadlines
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience
from shardline.services.connection import connect
from shardline.services.deadlines import time_left
from tests.unit.services.raw_server import RawServer, head_of, silence, trickle, whole

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

BODY = json.dumps({"ShardIterator": "A" * 200}).encode()
TRICKLED = {
    "the body": trickle(BODY, at_once=head_of(len(BODY))),
    "the headers": trickle(head_of(len(BODY), Filler="x" * 200) + BODY),
}


def asked(server: RawServer, read_timeout_seconds: float) -> Calls:
    """Return calls to the server that are tried once."""
    access = Access(endpoint_url=server.url, read_timeout_seconds=read_timeout_seconds)
    return Calls(make_client("kinesis", access), "kinesis://orders", Patience(total_seconds=0))


def open_shard(calls: Calls) -> object:
    answer = calls.call(
        "get_shard_iterator", StreamName="orders", ShardId="s", ShardIteratorType="LATEST"
    )
    return answer["ShardIterator"]


@pytest.mark.parametrize("part", TRICKLED)
def test_an_answer_that_trickles_in_is_given_up_at_the_read_time_out(part: str) -> None:
    with (
        RawServer(TRICKLED[part]) as server,
        pytest.raises(ServiceUnreachable, match="Read timeout"),
    ):
        open_shard(asked(server, read_timeout_seconds=1))


@pytest.mark.parametrize("answer", [silence, trickle(head_of(len(BODY)) + BODY)])
def test_the_time_that_a_caller_has_left_ends_a_call_before_its_read_time_out(
    answer: Callable[[socket.socket], None],
) -> None:
    with RawServer(answer) as server:
        calls = asked(server, read_timeout_seconds=200)
        with time_left(1), pytest.raises(ServiceUnreachable, match="Read timeout"):
            open_shard(calls)


def test_an_answer_of_which_nothing_comes_is_given_up_before_its_read_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines, "SILENCE_SECONDS", 1.0)
    with RawServer(silence) as server:
        client = make_client("kinesis", Access(endpoint_url=server.url, read_timeout_seconds=200))
        with pytest.raises(ReadTimeoutError):
            client.describe_limits()


def test_a_hanging_endpoint_respects_the_patience_that_was_asked_for() -> None:
    # The server is silent for a minute and then closes, which would be another error.
    with RawServer(silence) as server:
        access = Access(endpoint_url=server.url, read_timeout_seconds=200)
        service = connect("kinesis://orders", access, patience=Patience(total_seconds=1))
        with pytest.raises(ServiceUnreachable, match="Read timeout"):
            service.describe()
        assert server.operations == ["DescribeStreamSummary"]


def test_an_answer_in_time_is_left_alone() -> None:
    with RawServer(whole(BODY)) as server:
        assert open_shard(asked(server, read_timeout_seconds=20)) == "A" * 200


def test_without_time_left_nothing_is_sent() -> None:
    with RawServer(whole(BODY)) as server:
        client = make_client("kinesis", Access(endpoint_url=server.url))
        with time_left(0), pytest.raises(ConnectionClosedError):
            client.list_streams()
        assert server.operations == []


def test_a_deadline_counts_for_the_inner_of_two_blocks_only_if_it_is_shorter() -> None:
    with RawServer(whole(BODY)) as server:
        client = make_client("kinesis", Access(endpoint_url=server.url))
        with time_left(0), time_left(60), pytest.raises(ConnectionClosedError):
            client.list_streams()
        assert server.operations == []
