"""AWS's HTTP protocol: which call a request makes, and how its answer is encoded."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from aiohttp import web

from shardline.local.refusals import Refusal
from shardline.local.signatures import require_signature
from shardline.services.wire import cbor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shardline.local.backend import Backend

_JSON_TYPES: Final = ("application/x-amz-json-1.1", "application/x-amz-json-1.0")
_OLD_JSON: Final = "application/json"
_NO_TARGET: Final = "Unable to determine service/operation name to be authorized"


class Encoding(Enum):
    """The encoding of requests and answers."""

    JSON = "JSON"
    CBOR = "CBOR"
    OLD_JSON = "application/json, for which AWS has only errors"
    XML = "for errors of requests in no known encoding"


class Request(NamedTuple):
    """The parts of an HTTP request that decide about a call."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """The content type without its parameters."""
        return self.headers.get("Content-Type", "").split(";")[0].strip()

    @property
    def target(self) -> str:
        """The service and operation that the request names."""
        return self.headers.get("X-Amz-Target", "")

    def encoding(self) -> Encoding:
        """Return the encoding of the answer."""
        if self.method != "POST":
            return Encoding.XML
        if self.content_type == _JSON_TYPES[0] or self._is_dynamodb_json():
            return Encoding.JSON
        if not self.body or self.content_type == cbor.CONTENT_TYPE:
            return Encoding.CBOR
        return Encoding.OLD_JSON if self.content_type == _OLD_JSON else Encoding.XML

    def _is_dynamodb_json(self) -> bool:
        return self.content_type in _JSON_TYPES and self.target.startswith("DynamoDB")


class Call(NamedTuple):
    """A call of an operation of a backend."""

    backend: Backend
    operation: str
    parameters: dict[str, Any]


def parse_call(request: Request, backends: Sequence[Backend]) -> Call:
    """Return the call that a request makes, or raise `Refusal`."""
    encoding = request.encoding()
    if request.method != "POST":
        raise Refusal("AccessDeniedException", _NO_TARGET, status=403)
    backend = next((b for b in backends if request.target.startswith(b.target_prefix)), None)
    operation = "" if backend is None else request.target.removeprefix(backend.target_prefix)
    known = backend is not None and backend.knows(operation)
    if not request.body:
        raise Refusal("SerializationException" if known else "UnknownOperationException")
    if encoding is Encoding.XML:
        if all(request.target.partition(".")):
            raise Refusal("UnknownOperationException", status=404)
        raise Refusal("AccessDeniedException", _NO_TARGET, status=403)
    parameters = _decoded(request.body, encoding)
    if encoding is Encoding.OLD_JSON:
        raise Refusal("UnknownOperationException", status=404)
    if backend is None or not known:
        raise Refusal("UnknownOperationException")
    require_signature(request.headers, request.query)
    return Call(backend, operation, parameters)


def encoded_refusal(refusal: Refusal, request: Request) -> tuple[bytes, str | None]:
    """Return the body of an error answer and its content type."""
    match request.encoding():
        case Encoding.JSON:
            return msgspec.json.encode(refusal.members()), request.content_type
        case Encoding.CBOR:
            return cbor.encode(refusal.members()), cbor.CONTENT_TYPE
        case Encoding.OLD_JSON:
            output = {"__type": f"com.amazon.coral.service#{refusal.name}"}
            return msgspec.json.encode({"Output": output, "Version": "1.0"}), _OLD_JSON
        case Encoding.XML:
            if not refusal.message:
                return f"<{refusal.name}/>\n".encode(), None
            message = f"  <Message>{refusal.message}</Message>\n"
            return f"<{refusal.name}>\n{message}</{refusal.name}>\n".encode(), None


async def read_body(http: web.Request) -> bytes:
    """Return the whole body, or raise `Refusal`: it does not decompress, or the client has gone.

    As `http.read` does, with fewer copies.
    """
    parts, size = [], 0
    try:
        while part := await http.content.readany():
            parts.append(part)
            size += len(part)
            if size > http.client_max_size:
                raise web.HTTPRequestEntityTooLarge(http.client_max_size, size)
    except (web.RequestPayloadError, ConnectionError):
        raise Refusal("SerializationException") from None
    return b"".join(parts)


def decode_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object, or raise `Refusal`."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Refusal("SerializationException") from None
    if not isinstance(value, dict):
        raise Refusal("SerializationException")
    return value


def _decoded(body: bytes, encoding: Encoding) -> dict[str, Any]:
    if encoding is not Encoding.CBOR:
        return decode_object(body)
    try:
        value: Any = cbor.decode(body)
    except (msgspec.MsgspecError, ValueError):
        raise Refusal("SerializationException") from None
    if not isinstance(value, dict):
        raise Refusal("SerializationException")
    return value
