"""Pushes the events of a subscription to its client over one long HTTP answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from shardline.local import event_stream
from shardline.local.kinesis.cbor import page_as_cbor, record_as_cbor
from shardline.local.refusals import Refusal
from shardline.services.wire import cbor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shardline.local.clock import Clock
    from shardline.local.journal import Journal
    from shardline.local.kinesis.subscriptions import Event, Subscription

_POLL_SECONDS: Final = 0.1
"""How often the clock is read: it can be advanced at any time."""
_JSON: Final = "application/x-amz-json-1.1"


class EventPusher:
    """Answers SubscribeToShard calls, each until its subscription ends or its client is gone."""

    def __init__(self, clock: Clock, journal: Journal | None) -> None:
        self._clock = clock
        self._journal = journal
        self._arrivals: set[asyncio.Event] = set()
        self._closed = False

    def close(self) -> None:
        """End every answer. The clients see the end of their subscriptions."""
        self._closed = True
        for arrival in self._arrivals:
            arrival.set()

    async def push(
        self,
        http: web.Request,
        subscription: Subscription,
        headers: dict[str, str],
        *,
        in_cbor: bool,
    ) -> web.StreamResponse:
        """Answer one call."""
        response = web.StreamResponse(headers=headers | {"Content-Type": event_stream.CONTENT_TYPE})
        response.enable_chunked_encoding()
        await response.prepare(http)
        content_type = cbor.CONTENT_TYPE if in_cbor else _JSON
        empty = cbor.encode({}) if in_cbor else b"{}"
        arrival = asyncio.Event()
        listeners = subscription.shard.listeners
        listeners.add(arrival)
        self._arrivals.add(arrival)
        try:
            await response.write(
                event_stream.event_message("initial-response", empty, content_type)
            )
            try:
                async for payload in self._payloads(subscription, arrival, in_cbor=in_cbor):
                    await response.write(
                        event_stream.event_message("SubscribeToShardEvent", payload, content_type)
                    )
            except Refusal as refusal:
                members = refusal.members()
                payload = cbor.encode(members) if in_cbor else msgspec.json.encode(members)
                await response.write(
                    event_stream.exception_message(refusal.name, payload, content_type)
                )
            await response.write_eof()
        except ConnectionError:
            pass  # the client is gone
        finally:
            listeners.discard(arrival)
            self._arrivals.discard(arrival)
        return response

    async def _payloads(
        self, subscription: Subscription, arrival: asyncio.Event, *, in_cbor: bool
    ) -> AsyncIterator[bytes]:
        while not subscription.ended and not self._closed:
            arrival.clear()
            event = subscription.next_event(self._clock.now_ms())
            if event is not None:
                payload = _payload(subscription, event, in_cbor=in_cbor)
                if self._journal is not None:
                    await self._journal.flushed()
                yield payload
            elif not subscription.ended:
                await _arrival_or_poll(arrival)


async def _arrival_or_poll(arrival: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(arrival.wait(), _POLL_SECONDS)
    except TimeoutError:
        return


def _payload(subscription: Subscription, event: Event, *, in_cbor: bool) -> bytes:
    shard = subscription.shard
    if in_cbor:
        return page_as_cbor(shard.fragments_in_cbor(event.page, record_as_cbor), event.members)
    records = b",".join(shard.fragments(event.page))
    return b'{"Records":[' + records + b"]," + msgspec.json.encode(event.members)[1:]
