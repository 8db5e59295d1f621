"""The HTTP server: decodes calls, applies the injected faults and passes calls to the backends."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import time
import uuid
from contextlib import suppress
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from aiohttp import web

from shardline.local.protocol import (
    Call,
    Encoding,
    Request,
    encoded_refusal,
    parse_call,
    read_body,
)
from shardline.local.push import EventPusher
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.local.admission import Admission
    from shardline.local.backend import Backend
    from shardline.local.clock import Clock
    from shardline.local.faults import Fault, Faults
    from shardline.local.journal import Journal
    from shardline.local.settings import Settings

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
_HANG_POLL_SECONDS: Final = 0.01
_LARGE_BYTES: Final = 1 << 16
"""Answers from this size on are sent apart from their headers."""
_EXPOSED_HEADERS: Final = (
    "x-amzn-RequestId,x-amzn-ErrorType,x-amz-request-id,x-amz-id-2,x-amzn-ErrorMessage,Date"
)


class _UntypedResponse(web.Response):
    """An answer without a content type, which aiohttp would add."""


class _Cut(Exception):
    """Raised to cut the connection."""


class Server:
    """Request handler for AWS clients; X-Amz-Target selects the backend and the operation."""

    def __init__(
        self,
        backends: Sequence[Backend],
        clock: Clock,
        faults: Faults,
        settings: Settings,
        admission: Admission,
        journal: Journal | None = None,
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._faults = faults
        self._settings = settings
        self._admission = admission
        self._journal = journal
        self._pusher = EventPusher(clock, journal)

    async def close(self, _application: web.Application) -> None:
        """End the answers that never end by themselves."""
        self._pusher.close()

    async def answer(self, http: web.Request) -> web.StreamResponse:
        """Handle one call."""
        origin = http.headers.get("Origin")
        not_admitted = self._admission.refusal(http.headers.get("Host"), origin)
        if not_admitted is not None:
            logger.warning("refused a request: %s", not_admitted)
            refusal = Refusal("AccessDeniedException", not_admitted, status=403)
            return self._refused(refusal, Request("GET", {}, {}, b""))
        if http.method == "OPTIONS" and origin is not None:
            return self._preflight(http)
        request = Request(http.method, http.headers, http.query, b"")
        try:
            request = request._replace(body=await read_body(http))
            call = parse_call(request, self._backends)
            return await self._execute(http, request, call)
        except Refusal as refusal:
            return self._refused(refusal, request)
        except _Cut as cut:
            logger.info("cut the connection %s because of an injected fault", cut)
            return _cut_off(http)

    async def _execute(self, http: web.Request, request: Request, call: Call) -> web.StreamResponse:
        backend, operation, parameters = call
        shard_id = backend.shard_of(operation, parameters)
        await self._apply_faults(operation, shard_id, backend)
        if self._journal is not None:
            await self._journal.require_writable()
        now_ms = self._clock.now_ms()
        in_cbor = request.encoding() is Encoding.CBOR
        subscription = backend.subscription(operation, parameters, now_ms)
        if subscription is not None:
            if self._faults.take("lose-reply", operation, shard_id):
                raise _Cut(f"after {operation}")
            headers = self._headers(None, request)
            return await self._pusher.push(http, subscription, headers, in_cbor=in_cbor)
        execute = backend.call_cbor if in_cbor else backend.call
        try:
            body = execute(operation, parameters, now_ms)
        finally:  # a refusal also depends on earlier entries
            if self._journal is not None:
                await self._journal.flushed()
        if self._faults.take("lose-reply", operation, shard_id):
            raise _Cut(f"after {operation}")
        headers = self._headers(request.content_type, request)
        if self._is_answer_cut(call, shard_id):
            return await _cut_in_body(http, body, headers)
        if len(body) >= _LARGE_BYTES:
            return await _sent_apart(http, body, headers)
        return web.Response(body=body, headers=headers)

    def _is_answer_cut(self, call: Call, shard_id: str | None) -> bool:
        backend, operation, _ = call
        if self._faults.take("cut-answer", operation, shard_id):
            return True
        if backend.has_effect(operation):
            return False
        return self._faults.happens(
            self._settings.cut_answer_one_in, "cut-answer", operation, shard_id or ""
        )

    async def _apply_faults(self, operation: str, shard_id: str | None, backend: Backend) -> None:
        """Apply the faults that precede the effect of a call."""
        hang = self._faults.take("hang", operation, shard_id)
        if hang is not None:
            await _wait_for_release(hang)
        if self._faults.take("cut", operation, shard_id):
            raise _Cut(f"before {operation}")
        if self._faults.take("internal-failure", operation, shard_id):
            raise Refusal("InternalFailure", "injected fault", status=500)
        # In PutRecords single records fail: its backend applies the fault.
        if operation != "PutRecords" and self._faults.take("throttle", operation, shard_id):
            raise Refusal(throttling_exception(backend.target_prefix, operation), "injected fault")

    def _refused(self, refusal: Refusal, request: Request) -> web.Response:
        body, content_type = encoded_refusal(refusal, request)
        return _response(body, refusal.status, self._headers(content_type, request))

    def _preflight(self, http: web.Request) -> web.Response:
        headers = self._headers(None, Request("OPTIONS", {}, {}, b"")) | {
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Max-Age": "172800",
        }
        del headers["x-amz-id-2"]
        for kind in ("Headers", "Method"):
            requested = http.headers.get(f"Access-Control-Request-{kind}")
            if requested is not None:
                plural = "Headers" if kind == "Headers" else "Methods"
                headers[f"Access-Control-Allow-{plural}"] = requested
        return _response(b"", 200, headers)

    def _headers(self, content_type: str | None, request: Request) -> dict[str, str]:
        headers = {
            "Date": formatdate(self._clock.now_ms() / 1000, usegmt=True),
            "x-amzn-RequestId": str(uuid.uuid4()),
            "x-amz-id-2": base64.b64encode(os.urandom(72)).decode(),
        }
        if content_type is not None:
            headers["Content-Type"] = content_type
        if "Origin" in request.headers:
            headers["Access-Control-Allow-Origin"] = "*"
            headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
        return headers


def throttling_exception(target_prefix: str, operation: str) -> str:
    """Return the exception of an operation that is called too often."""
    if not target_prefix.startswith("Kinesis_"):
        return "ThrottlingException"
    if operation in ("GetRecords", "GetShardIterator", "PutRecord"):
        return "ProvisionedThroughputExceededException"
    return "LimitExceededException"


async def _wait_for_release(hang: Fault) -> None:
    deadline = None if hang.seconds is None else time.monotonic() + hang.seconds
    while not hang.released.is_set() and (deadline is None or time.monotonic() < deadline):
        await asyncio.sleep(_HANG_POLL_SECONDS)


def _response(body: bytes, status: int, headers: dict[str, str]) -> web.Response:
    kind = web.Response if "Content-Type" in headers else _UntypedResponse
    return kind(body=body, status=status, headers=headers)


async def drop_content_type(_http: web.Request, response: web.StreamResponse) -> None:
    """Remove the content type that aiohttp adds where AWS sends none."""
    if isinstance(response, _UntypedResponse):
        response.headers.popall("Content-Type", None)


async def _sent_apart(
    http: web.Request, body: bytes, headers: dict[str, str]
) -> web.StreamResponse:
    """Send the headers first: aiohttp would join them with the body, which copies all of it."""
    response = web.StreamResponse(headers=headers)
    response.content_length = len(body)
    with suppress(ConnectionError):  # the client may have gone
        writer = await response.prepare(http)
        if writer is not None:
            writer.send_headers()
        await response.write(body)
    return response


async def _cut_in_body(
    http: web.Request, body: bytes, headers: dict[str, str]
) -> web.StreamResponse:
    """Send the length of the whole answer and one half of it, then cut the connection."""
    response = web.StreamResponse(headers=headers)
    response.content_length = max(len(body), 1)
    with suppress(ConnectionError):  # the client may have gone
        await response.prepare(http)
        await response.write(body[: len(body) // 2])
    logger.info("cut the connection in mid-answer because of an injected fault")
    return _cut_off(http, response)


def _cut_off(http: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """Close the connection at once. aiohttp needs a response but cannot send it any more."""
    if http.transport is not None:
        http.transport.abort()
    return response or web.Response(status=500)
