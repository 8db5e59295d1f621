"""One subscription to one shard: an answer of SubscribeToShard, read event by event."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from botocore.exceptions import HTTPClientError

from shardline.errors import ServiceError
from shardline.services.clock import boot_seconds
from shardline.services.fan_out.port import (
    SubscriptionBroken,
    SubscriptionEnded,
    SubscriptionTaken,
)
from shardline.services.port import Page
from shardline.services.wire.event_stream import MessageBuffer
from shardline.services.wire.kinesis import decode_event

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.services.fan_out.push import PushedBody
    from shardline.services.wire.event_stream import Message

SILENCE_SECONDS: Final = 20.0
"""The service sends an event at least every five seconds, if only to say that there is none."""
_STALE_SECONDS: Final = 30.0
"""How long more may be waiting than was read. What waits is as old as that, and `core.gaps` needs
to know when the service read a record: its margin is a minute."""
_MANY_RECORDS: Final = 1_000
"""So many records are delivered without looking for more that have come."""
_EVENT: Final = "SubscribeToShardEvent"


class ShardSubscription:
    """Reads the events of one answer. `service_time_at` translates a time of our clock."""

    def __init__(
        self,
        subject: str,
        body: PushedBody,
        service_time_at: Callable[[float], datetime],
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._subject = subject
        self._body = body
        self._service_time_at = service_time_at
        self._clock = clock
        self._messages = MessageBuffer()
        self._heard_at = clock()
        self._sent_after = self._heard_at
        """What is in the buffer was sent after this time."""
        self._failure: ServiceError | None = None
        """What follows the events that were returned."""

    def next(self, wait_seconds: float) -> Page | None:
        """Return the events that have come as one page, or None if none came within this time."""
        ends_at = self._clock() + wait_seconds
        while True:
            pages = self._take_all()
            if pages:
                return _joined(pages)
            data = self._read(max(0.0, ends_at - self._clock()))
            now = self._clock()
            if data is None:
                if now - self._heard_at > SILENCE_SECONDS:
                    silence = f"no event for {now - self._heard_at:.0f} s"
                    raise SubscriptionBroken(f"{self._subject}: {silence}")
                return None
            if not data:
                if len(self._messages):
                    raise SubscriptionBroken(f"{self._subject}: ended in the middle of an event")
                raise SubscriptionEnded(f"{self._subject}: the subscription has ended")
            if not len(self._messages):
                self._sent_after = self._body.emptied_at
            if now - self._body.emptied_at > _STALE_SECONDS:
                raise SubscriptionEnded(f"{self._subject}: read too slowly to know its times")
            self._messages.add(data)

    def close(self) -> None:
        """Close the connection."""
        self._body.close()

    def _read(self, wait_seconds: float) -> bytes | None:
        try:
            return self._body.read(wait_seconds)
        except (OSError, ValueError, HTTPClientError) as error:
            raise SubscriptionBroken(f"{self._subject}: {error}") from error

    def _take_all(self) -> list[Page]:
        """Return the whole events that have come. What follows them is raised by the next call."""
        if self._failure is not None:
            raise self._failure
        pages: list[Page] = []
        try:
            while sum(page.records.num_rows for page in pages) < _MANY_RECORDS:
                page = self._take()
                if page is None:
                    break
                pages.append(page)
        except ServiceError as error:
            self._failure = error
            if not pages:
                raise
        return pages

    def _take(self) -> Page | None:
        """Return the next whole event that has come, if any."""
        try:
            while (message := self._messages.take()) is not None:
                self._heard_at = self._clock()
                if message.headers.get(":message-type") != "event":
                    raise self._read_failure(message)
                if message.headers.get(":event-type") == _EVENT:
                    return self._page(message.payload)
        except (HTTPClientError, msgspec.DecodeError) as error:
            raise SubscriptionBroken(f"{self._subject}: {error}") from error
        return None

    def _page(self, payload: bytes) -> Page:
        event = decode_event(payload)
        return Page(
            event.records,
            event.next_iterator,
            event.behind_ms,
            event.children,
            self._service_time_at(self._sent_after),
        )

    def _read_failure(self, message: Message) -> SubscriptionTaken | SubscriptionBroken:
        """Return the error that a message of the service means; it is the last one."""
        headers = message.headers
        name = headers.get(":exception-type") or headers.get(":error-code") or "an error"
        text = headers.get(":error-message") or _text_in(message.payload)
        kind = SubscriptionBroken if name.startswith("Internal") else SubscriptionTaken
        return kind(f"{self._subject}: ended by the service with {name}: {text}")


def _joined(pages: list[Page]) -> Page:
    """Return events in a row as one page: what the last one says, from the time of the first."""
    if len(pages) == 1:
        return pages[0]
    table = pa.Table.from_batches([page.records for page in pages]).combine_chunks()
    batches = table.to_batches() or [pages[0].records]
    return replace(pages[-1], records=batches[0], service_time=pages[0].service_time)


def _text_in(payload: bytes) -> str:
    try:
        members: dict[str, Any] = msgspec.json.decode(payload, type=dict[str, Any])
    except msgspec.DecodeError:
        return "no reason given"
    return str(members.get("message") or members.get("Message") or "no reason given")
