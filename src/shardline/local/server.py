"""The HTTP side: calls in the services' own protocol go to their backends, through the faults."""

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
    """The connection is to be cut."""


class Server:
    """Answers what boto3 and other clients ask, for every backend by the target that they name."""

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
        """Answer one call."""
        body = await request.read()
        content_type = request.headers.get("Content-Type", "application/x-amz-json-1.1")
        try:
            answer, status = await self._carry_out(request, content_type, body), 200
        except Refusal as refusal:
            said = {"__type": refusal.name, "message": refusal.message}
            answer = cbor.encode(said) if "cbor" in content_type else msgspec.json.encode(said)
            status = refusal.status
        except _Cut as cut:
            logger.info("cut the connection %s, by a fault that was set", cut)
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

    async def _carry_out(self, request: web.Request, content_type: str, body: bytes) -> bytes:
        target = request.headers.get("X-Amz-Target", "")
        backend = next((b for b in self._backends if target.startswith(b.target_prefix)), None)
        if backend is None:
            raise Refusal("UnknownOperationException", f"no service here knows {target[:140]!r}")
        operation = target.removeprefix(backend.target_prefix)
        call = backend.call
        if "cbor" in content_type and (call_cbor := getattr(backend, "call_cbor", None)):
            call, asked = call_cbor, _decode_map(body)
        elif "json" in content_type:
            asked = decode_object(body)
        else:
            raise Refusal("SerializationException", f"{content_type[:60]} is not spoken: send JSON")
        shard_id = _shard_of(backend, operation, asked)
        await self._suffer(operation, shard_id, backend)
        try:
            answer = call(operation, asked, self._clock.now_ms())
        finally:  # a refusal, too, tells of what happened before
            if self._journal is not None:
                await self._journal.settled()
        if self._faults.take("lose-reply", operation, shard_id):
            raise _Cut(f"after {operation}")
        return answer

    async def _suffer(self, operation: str, shard_id: str | None, backend: Backend) -> None:
        """Let the faults that come before the effect happen."""
        hang = self._faults.take("hang", operation, shard_id)
        if hang is not None:
            await _wait_for_release(hang)
        if self._faults.take("cut", operation, shard_id):
            raise _Cut(f"before {operation}")
        if self._faults.take("internal-failure", operation, shard_id):
            raise Refusal("InternalFailure", "a fault that was set", status=500)
        # PutRecords fails record by record: its backend takes the fault.
        if operation != "PutRecords" and self._faults.take("throttle", operation, shard_id):
            raise Refusal(throttled_name(backend.target_prefix, operation), "a fault that was set")


def throttled_name(target_prefix: str, operation: str) -> str:
    """Return the exception by which a service says that it is called too often."""
    if not target_prefix.startswith("Kinesis_"):
        return "ThrottlingException"
    if operation in ("GetRecords", "GetShardIterator", "PutRecord"):
        return "ProvisionedThroughputExceededException"
    return "LimitExceededException"


def decode_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object, or refuse."""
    try:
        asked: Any = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal("SerializationException", f"The body is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise Refusal("SerializationException", "The body is not a JSON object.")
    return asked


def _decode_map(body: bytes) -> dict[str, Any]:
    """Read a CBOR map, or refuse."""
    try:
        asked: Any = cbor.decode(body or b"\xa0")
    except msgspec.DecodeError as error:
        raise Refusal("SerializationException", f"The body is not CBOR: {error}") from None
    if not isinstance(asked, dict):
        raise Refusal("SerializationException", "The body is not a CBOR map.")
    return asked


async def _wait_for_release(hang: Fault) -> None:
    deadline = None if hang.seconds is None else time.monotonic() + hang.seconds
    while not hang.released.is_set() and (deadline is None or time.monotonic() < deadline):
        await asyncio.sleep(_HANG_POLL_SECONDS)


def _shard_of(backend: Backend, operation: str, asked: dict[str, Any]) -> str | None:
    find = getattr(backend, "shard_of", None)
    shard_id = find(operation, asked) if find is not None else asked.get("ShardId")
    return shard_id if isinstance(shard_id, str) else None


def _cut_off(request: web.Request) -> web.Response:
    """Close the line at once. aiohttp needs some response, and finds nobody to send it to."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
