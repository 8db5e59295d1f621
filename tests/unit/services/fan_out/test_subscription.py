"""The answer of SubscribeToShard, over real sockets: whole, cut, garbled, refused and silent."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.positions import TRIM_HORIZON, AtTime
from shardline.errors import ConfigurationError, Throttled
from shardline.local.event_stream import event_message, exception_message
from shardline.services.access import Access
from shardline.services.calls import Patience
from shardline.services.connection import connect
from shardline.services.fan_out.port import (
    PushService,
    SubscriptionBroken,
    SubscriptionEnded,
    SubscriptionTaken,
)
from shardline.services.fan_out.subscription import SILENCE_SECONDS, ShardSubscription
from tests.unit.services.raw_server import RawServer, whole

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from shardline.services.fan_out.port import Subscription
    from shardline.services.port import Page

JSON = "application/x-amz-json-1.1"
STREAM_ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
CONSUMER = {
    "ConsumerName": "billing",
    "ConsumerARN": f"{STREAM_ARN}/consumer/billing:1",
    "ConsumerStatus": "ACTIVE",
    "ConsumerCreationTimestamp": 1.8e9,
}
INITIAL = event_message("initial-response", b"{}", JSON)
CHILD = {
    "ShardId": "shardId-000000000001",
    "ParentShards": ["shardId-000000000000"],
    "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "9"},
}


def event(*numbers: int, **members: Any) -> bytes:
    records = [
        {
            "SequenceNumber": str(number),
            "PartitionKey": "a",
            "Data": base64.b64encode(b"x" * 50).decode(),
            "ApproximateArrivalTimestamp": 1.8e9,
        }
        for number in numbers
    ]
    body = {"Records": records, "MillisBehindLatest": 3, "ContinuationSequenceNumber": "77"}
    return event_message("SubscribeToShardEvent", json.dumps(body | members).encode(), JSON)


def chunked(*messages: bytes, ended: bool = True, wait: bool = False) -> Callable[..., None]:
    """Answer with chunks, and end, cut or keep the connection."""
    head = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: application/vnd.amazon.eventstream\r\n"
        b"Date: Mon, 16 Nov 2026 12:00:00 GMT\r\n\r\n"
    )

    def answer(client: socket.socket) -> None:
        sent = b"".join(b"%x\r\n%b\r\n" % (len(message), message) for message in messages)
        client.sendall(head + sent + (b"0\r\n\r\n" if ended else b""))
        if wait:
            client.recv(1)  # until the client is gone

    return answer


@contextmanager
def subscribed(answer: Callable[[socket.socket], None]) -> Iterator[Subscription]:
    with RawServer(whole({"ConsumerDescription": CONSUMER}), answer) as server:
        service = connect(
            f"kinesis://{STREAM_ARN}",
            Access(endpoint_url=server.url),
            patience=Patience(total_seconds=0),
            fan_out="billing",
        )
        assert isinstance(service, PushService)
        try:
            yield service.subscribe("shardId-000000000000", TRIM_HORIZON)
        finally:
            service.close()
    assert server.operations == ["DescribeStreamConsumer", "SubscribeToShard"]


def page_of(subscription: Subscription) -> Page:
    page = subscription.next(30)
    assert page is not None
    return page


def numbers(page: Page) -> list[str]:
    found: list[str] = page.records.column("sequenceNumber").to_pylist()
    return found


@pytest.mark.req("F-02", "F-03")
def test_events_are_pages_until_the_answer_ends() -> None:
    with subscribed(chunked(INITIAL, event(1, 2))) as subscription:
        page = page_of(subscription)
        assert (numbers(page), page.next_iterator, page.behind_ms) == (["1", "2"], "77", 3)
        assert page.records.column("data").to_pylist() == [b"x" * 50] * 2
        with pytest.raises(SubscriptionEnded):
            subscription.next(30)


def test_events_that_have_come_are_one_page_before_what_follows_them() -> None:
    body = ScriptedBody(
        event(1, 2) + event() + event(3, ContinuationSequenceNumber="90", MillisBehindLatest=0),
        event() + event(ContinuationSequenceNumber="95"),
        event(4) + event(5, ContinuationSequenceNumber=None),
    )
    subscription = subscription_on(body)
    pages = [page_of(subscription) for _ in range(3)]
    assert [numbers(page) for page in pages] == [["1", "2", "3"], [], ["4"]]
    assert [page.next_iterator for page in pages] == ["90", "95", "77"]
    assert [page.behind_ms for page in pages] == [0, 3, 3]
    for _ in range(2):
        with pytest.raises(SubscriptionBroken):
            subscription.next(0)


@pytest.mark.req("F-06")
def test_the_end_of_a_shard_has_children_and_no_number() -> None:
    sent = event(5, ChildShards=[CHILD], ContinuationSequenceNumber=None)
    with subscribed(chunked(INITIAL, sent)) as subscription:
        page = page_of(subscription)
        assert page.next_iterator is None
        assert [child.id for child in page.children] == ["shardId-000000000001"]


WRONG: dict[str, Callable[..., None]] = {
    "no end and no number": chunked(INITIAL, event(1, ContinuationSequenceNumber=None)),
    "a number of letters": chunked(INITIAL, event(1, ContinuationSequenceNumber="x")),
    "an empty object": chunked(INITIAL, event_message("SubscribeToShardEvent", b"{}", JSON)),
    "a cut connection": chunked(INITIAL, event(1)[:40], ended=False),
    "a connection cut between events": chunked(INITIAL, ended=False),
    "an answer that ends within an event": chunked(INITIAL, event(1)[:40]),
    "a garbled event": chunked(INITIAL, event(1).replace(b"77", b"78")),
    "an internal failure": chunked(
        INITIAL, exception_message("InternalFailureException", b"{}", JSON)
    ),
}


@pytest.mark.req("F-04")
@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_event_breaks_the_subscription(what: str) -> None:
    with subscribed(WRONG[what]) as subscription, pytest.raises(SubscriptionBroken):
        subscription.next(30)


@pytest.mark.req("F-05")
def test_an_exception_of_the_service_ends_the_subscription_with_its_words() -> None:
    refusal = exception_message("ResourceInUseException", b'{"message":"taken over"}', JSON)
    with (
        subscribed(chunked(INITIAL, refusal)) as subscription,
        pytest.raises(SubscriptionTaken, match="ResourceInUseException: taken over"),
    ):
        subscription.next(30)


def test_a_refusal_is_an_error_that_says_why() -> None:
    answer = whole({"__type": "LimitExceededException", "message": "slow"}, status=400)
    with pytest.raises(Throttled), subscribed(answer):
        pass


def test_one_shard_asks_for_the_consumer_and_a_no_holds_for_all() -> None:
    missing = whole({"__type": "ResourceNotFoundException", "message": "none"}, status=400)
    stream = whole(
        {
            "StreamDescriptionSummary": {
                "StreamName": "orders",
                "StreamARN": STREAM_ARN,
                "StreamStatus": "ACTIVE",
                "RetentionPeriodHours": 24,
                "StreamCreationTimestamp": 1.8e9,
                "EnhancedMonitoring": [],
                "OpenShardCount": 1,
            }
        }
    )
    with RawServer(missing, stream, missing) as server:
        service = connect(
            f"kinesis://{STREAM_ARN}", Access(endpoint_url=server.url), fan_out="billing"
        )
        assert isinstance(service, PushService)
        for number in range(5):
            with pytest.raises(ConfigurationError, match="has no fan-out consumer 'billing'"):
                service.subscribe(f"shardId-{number:012d}", TRIM_HORIZON)
        service.close()
    assert server.operations == ["DescribeStreamConsumer", "DescribeStreamSummary"]


def test_nothing_is_waited_for_that_is_not_there() -> None:
    with subscribed(chunked(INITIAL, event(1), ended=False, wait=True)) as subscription:
        assert numbers(page_of(subscription)) == ["1"]
        assert subscription.next(0) is None


def test_a_time_is_sent_with_its_milliseconds() -> None:
    bodies: list[bytes] = []

    def answer(client: socket.socket) -> None:
        chunked(INITIAL)(client)

    with RawServer(whole({"ConsumerDescription": CONSUMER}), answer) as server:
        service = connect(
            f"kinesis://{STREAM_ARN}", Access(endpoint_url=server.url), fan_out="billing"
        )
        assert isinstance(service, PushService)
        client: Any = service
        client._push_client.meta.events.register(
            "before-send.kinesis.SubscribeToShard", lambda request, **_: bodies.append(request.body)
        )
        time = datetime(2026, 11, 16, 12, 0, 0, 123_000, tzinfo=UTC)
        service.subscribe("shardId-000000000000", AtTime(time))
        service.close()
    [sent] = bodies
    assert json.loads(sent)["StartingPosition"] == {
        "Type": "AT_TIMESTAMP",
        "Timestamp": time.timestamp(),
    }


# --- with a clock of its own -------------------------------------------------------------------


class ScriptedBody:
    """A body under a clock: `read` waits in virtual time, and gives what its script says."""

    def __init__(self, *script: bytes | float) -> None:
        self.script = list(script)
        """Bytes that have come, or seconds until the next have."""
        self.now = self.emptied_at = 0.0

    def read(self, wait_seconds: float) -> bytes | None:
        if self.script and isinstance(self.script[0], float):
            self.emptied_at = self.now
            seconds = self.script[0]
            if seconds > wait_seconds:
                self.script[0] = seconds - wait_seconds
                self.now += wait_seconds
                return None
            self.script.pop(0)
            self.now += seconds
        found = self.script.pop(0)
        assert isinstance(found, bytes)
        return found

    def close(self) -> None:
        """Nothing to close."""


EPOCH = datetime(2026, 11, 16, tzinfo=UTC)


def subscription_on(body: Any) -> ShardSubscription:
    return ShardSubscription(
        "shard", body, lambda at: EPOCH + timedelta(seconds=at), clock=lambda: body.now
    )


@pytest.mark.req("F-04")
def test_silence_breaks_a_subscription_though_bytes_trickle_in() -> None:
    trickled = [part for byte in event(1)[:30] for part in (1.0, bytes([byte]))]
    body = ScriptedBody(*trickled)
    subscription = subscription_on(body)
    seen = iter(lambda: subscription.next(0.5), "never")
    with pytest.raises(SubscriptionBroken, match="no event for"):
        list(seen)
    assert SILENCE_SECONDS < body.now < SILENCE_SECONDS + 2


@pytest.mark.req("F-07")
def test_an_event_is_dated_before_it_was_sent_and_never_after() -> None:
    body = ScriptedBody(4.0, event(1), event(2), 3.0, event(3)[:20], 9.0, event(3)[20:])
    subscription = subscription_on(body)
    pages = [page_of(subscription)]
    body.now = 15.0  # the second one waits to be read meanwhile
    pages += [page_of(subscription), page_of(subscription)]
    times = [(page.service_time - EPOCH).total_seconds() for page in pages]
    assert times == [0.0, 0.0, 15.0]


@pytest.mark.req("F-07")
def test_a_subscription_that_is_read_too_slowly_to_be_dated_is_renewed() -> None:
    body = ScriptedBody(event(1), event(2), event(3))
    subscription = subscription_on(body)
    assert numbers(page_of(subscription)) == ["1"]
    body.now = 29.0
    assert numbers(page_of(subscription)) == ["2"]
    body.now = 31.0
    with pytest.raises(SubscriptionEnded, match="too slowly"):
        subscription.next(0)
