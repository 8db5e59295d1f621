"""Makes a client use CBOR instead of JSON, as the AWS SDK for Java does: there is no base64.

botocore still writes and parses JSON; bodies are converted on the way out and in. A page of records
is not: `decode_kinesis` reads both formats.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import msgspec

from shardline.services.wire import cbor

WIRES: Final = ("json", "cbor")


def use_cbor(client: Any, service_id: str) -> None:
    """Make a client send CBOR, and read it in every answer, refusals included."""

    def write(params: dict[str, Any], model: Any, **_: Any) -> None:
        params["body"] = cbor.encode(_typed(json.loads(params["body"] or "{}"), model.input_shape))
        params["headers"]["Content-Type"] = cbor.CONTENT_TYPE

    def read(response_dict: dict[str, Any], **_: Any) -> None:
        response_dict["body"] = in_json(response_dict["body"])

    # Last, so that others still see JSON in a request, and a page of records is decoded before.
    client.meta.events.register_last(f"before-call.{service_id}", write)
    client.meta.events.register_last(f"before-parse.{service_id}", read)


def in_json(body: bytes) -> bytes:
    """Return a body as JSON, which it may be already."""
    return msgspec.json.encode(cbor.decode(body)) if cbor.is_cbor_map(body) else body


def _typed(value: Any, shape: Any) -> Any:
    """Return a value of JSON with its times and bytes in types of their own."""
    match getattr(shape, "type_name", None), value:
        case "structure", dict():
            return {name: _typed(each, shape.members.get(name)) for name, each in value.items()}
        case "list", list():
            return [_typed(each, shape.member) for each in value]
        case "timestamp", int() | float():
            # Up to the next millisecond: a record of the one that has begun is before the time.
            return cbor.Milliseconds(-(-round(value * 1_000_000) // 1000))
        case "blob", str():
            return base64.b64decode(value)
    return value
