"""The HTTP server: decodes calls, applies the injected faults and passes calls to the backends."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from shardline.local.refusals import Refusal
from shardline.services.wire import cbor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.local.clock import Clock
    from shardline.local.faults import Fault, Faults
    from shardline.local.journal import Journal
    from shardline.local.refusals import Backend

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
_HANG_POLL_SECONDS: Final = 0.01


class _Cut(Exception):
    """Raised to cut the connection."""


class Server:
    """Request handler for AWS clients; X-Amz-Target selects the backend and the operation."""

    def __init__(
        self,
        backends: Sequence[Backend],
        clock: Clock,
        faults: Faults,
        journal: Journal | None = None,
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._faults = faults
        self._journal = journal

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Handle one call."""
        body = await request.read()
        content_type = request.headers.get("Content-Type", "application/x-amz-json-1.1")
        try:
            answer, status = await self._execute(request, content_type, body), 200
        except Refusal as refusal:
            error = {"__type": refusal.name, "message": refusal.message}
            answer = cbor.encode(error) if "cbor" in content_type else msgspec.json.encode(error)
            status = refusal.status
        except _Cut as cut:
            logger.info("cut the connection %s because of an injected fault", cut)
            return _cut_off(request)
        return web.Response(
            body=answer,
            status=status,
            headers={
                "Content-Type": content_type,
                "Date": formatdate(self._clock.now_ms() / 1000, usegmt=True),
                "x-amzn-RequestId": str(uuid.uuid4()),
            },
        )

    async def _execute(self, request: web.Request, content_type: str, body: bytes) -> bytes:
        target = request.headers.get("X-Amz-Target", "")
        backend = next((b for b in self._backends if target.startswith(b.target_prefix)), None)
        if backend is None:
            raise Refusal("UnknownOperationException", f"unknown target {target[:140]!r}")
        operation = target.removeprefix(backend.target_prefix)
        call = backend.call
        if "cbor" in content_type and (call_cbor := getattr(backend, "call_cbor", None)):
            call, parameters = call_cbor, _decode_map(body)
        elif "json" in content_type:
            parameters = decode_object(body)
        else:
            raise Refusal(
                "SerializationException", f"{content_type[:60]} is not supported: send JSON"
            )
        shard_id = _shard_of(backend, operation, parameters)
        await self._apply_faults(operation, shard_id, backend)
        try:
            answer = call(operation, parameters, self._clock.now_ms())
        finally:  # a refusal also depends on earlier entries
            if self._journal is not None:
                await self._journal.flushed()
        if self._faults.take("lose-reply", operation, shard_id):
            raise _Cut(f"after {operation}")
        return answer

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


def throttling_exception(target_prefix: str, operation: str) -> str:
    """Return the exception by which a service says that it is called too often."""
    if not target_prefix.startswith("Kinesis_"):
        return "ThrottlingException"
    if operation in ("GetRecords", "GetShardIterator", "PutRecord"):
        return "ProvisionedThroughputExceededException"
    return "LimitExceededException"


def decode_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object, or raise `Refusal`."""
    try:
        value: Any = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal("SerializationException", f"The body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal("SerializationException", "The body is not a JSON object.")
    return value


def _decode_map(body: bytes) -> dict[str, Any]:
    """Decode a CBOR map, or raise `Refusal`."""
    try:
        value: Any = cbor.decode(body or b"\xa0")
    except msgspec.DecodeError as error:
        raise Refusal("SerializationException", f"The body is not CBOR: {error}") from None
    if not isinstance(value, dict):
        raise Refusal("SerializationException", "The body is not a CBOR map.")
    return value


async def _wait_for_release(hang: Fault) -> None:
    deadline = None if hang.seconds is None else time.monotonic() + hang.seconds
    while not hang.released.is_set() and (deadline is None or time.monotonic() < deadline):
        await asyncio.sleep(_HANG_POLL_SECONDS)


def _shard_of(backend: Backend, operation: str, parameters: dict[str, Any]) -> str | None:
    find = getattr(backend, "shard_of", None)
    shard_id = find(operation, parameters) if find is not None else parameters.get("ShardId")
    return shard_id if isinstance(shard_id, str) else None


def _cut_off(request: web.Request) -> web.Response:
    """Close the connection at once. aiohttp needs a response but cannot send it any more."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
