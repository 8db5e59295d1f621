"""Requests to the embedded service, sensible and not: each is answered or refused, none fails.

They are made from botocore's description of each operation, and then damaged. They are handed to
what stands behind the HTTP server: an exception there would be a status of 500.
"""

from __future__ import annotations

import base64
import json
import random
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import botocore.session

from shardline.local import Clock, Service
from shardline.local.dynamodb.operations import DynamoDBBackend
from shardline.local.protocol import Encoding, Request, parse_call
from shardline.local.refusals import Refusal
from shardline.services.wire import cbor
from tests.integration.kinesis_calls import SIGNED
from tests.property.decoder_cases import CBOR_PIECES, JSON_PIECES, damaged_bytes
from tests.property.document_cases import JUNK, damaged

CASES_PER_SERVICE: Final = 2_000
"""What requests leave behind slows later ones down."""
TARGETS: Final = {
    "kinesis": "Kinesis_20131202",
    "dynamodb": "DynamoDB_20120810",
    "dynamodbstreams": "DynamoDBStreams_20120810",
}
TEXTS: Final = (
    *("orders", "users", "shardId-000000000000", "shardId-000000000001", "id", "S", "HASH", "0"),
    *("arn:aws:kinesis:us-east-1:000000000000:stream/orders", "TRIM_HORIZON", "LATEST", "", "me"),
    *("AT_TIMESTAMP", "AFTER_SEQUENCE_NUMBER", "#a = :b", "attribute_exists(id)", "SET #a = :b"),
    *("49590338271490256608559692538361571095921575989136588898", str(2**127), "x" * 300, ":b"),
)
MODELS: Final = {name: botocore.session.Session().get_service_model(name) for name in TARGETS}


@lru_cache(maxsize=1)
def _backends(_block: int) -> dict[str, Any]:
    # Not strict: refusals for limits would hide what lies behind them.
    service = Service(clock=Clock(datetime(2026, 11, 1, tzinfo=UTC)))
    service.create_stream("orders", 2)
    service.tables.create_table("users", shards=2)
    backends = {
        "kinesis": service.kinesis,
        "dynamodb": service.dynamodb,
        "tables": DynamoDBBackend(service.database),
    }
    service.stop()
    return backends


def check(seed: int) -> None:
    """Make one request and have it answered."""
    draw = random.Random(seed)
    name = draw.choice(("kinesis", "kinesis", "dynamodb", "dynamodbstreams"))
    operation = draw.choice(MODELS[name].operation_names)
    shape = MODELS[name].operation_model(operation).input_shape
    members: Any = _value(draw, shape, 0) if shape is not None else {}
    if draw.random() < 0.5:
        members = damaged(draw, members)
    in_cbor = name == "kinesis" and draw.random() < 0.3
    try:
        body = cbor.encode(members) if in_cbor else json.dumps(members, default=str).encode()
    except (TypeError, ValueError, OverflowError):
        body = json.dumps(members, default=str).encode()  # CBOR has no place for it
    if draw.random() < 0.15:
        body = damaged_bytes(draw, body, CBOR_PIECES if in_cbor else JSON_PIECES)
    headers = {
        "X-Amz-Target": f"{TARGETS[name]}.{operation}",
        "Content-Type": cbor.CONTENT_TYPE if in_cbor else "application/x-amz-json-1.1",
        **SIGNED,
    }
    if draw.random() < 0.03:
        headers[draw.choice(list(headers))] = str(draw.choice(JUNK))
    _execute(Request("POST", headers, {}, body), seed)


def _execute(request: Request, seed: int) -> None:
    backends = _backends(seed // CASES_PER_SERVICE)
    now_ms = round(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000) + seed % CASES_PER_SERVICE
    try:
        backend, operation, parameters = parse_call(request, tuple(backends.values()))
        start = getattr(backend, "subscription", None)
        if start is not None and start(operation, parameters, now_ms) is not None:
            return
        in_cbor = request.encoding() is Encoding.CBOR
        execute = getattr(backend, "call_cbor", None) if in_cbor else backend.call
        answer = execute(operation, parameters, now_ms) if execute else b""
    except Refusal:
        return
    if not isinstance(answer, bytes):
        raise TypeError(f"{operation} answered {answer!r}")


def _value(draw: random.Random, shape: Any, depth: int) -> Any:
    match shape.type_name:
        case "structure":
            required = set(shape.required_members)
            if shape.name == "AttributeValue":
                kind = draw.choice(("S", "N", "B", "BOOL", "L", "M", "SS"))
                return {kind: _value(draw, shape.members[kind], depth + 1)}
            return {
                name: _value(draw, member, depth + 1)
                for name, member in shape.members.items()
                if name in required or draw.random() < (0.4 if depth < 3 else 0.1)
            }
        case "list":
            many = 0 if depth > 5 else draw.choice((0, 1, 1, 3))
            return [_value(draw, shape.member, depth + 1) for _ in range(many)]
        case "map":
            keys = draw.sample(("id", "#a", ":b", "orders", "users"), 0 if depth > 5 else 2)
            return {key: _value(draw, shape.value, depth + 1) for key in keys}
        case "boolean":
            return draw.random() < 0.5
        case "blob":
            return base64.b64encode(draw.randbytes(draw.choice((0, 3, 50)))).decode()
        case "integer" | "long" | "float" | "double":
            return draw.choice((0, 1, 2, 5, 24, 100, 10_000, -1, 2**31))
        case "timestamp":
            return draw.choice((0, 1793491200, 1793491200.5, 10**12))
    return draw.choice((*shape.enum, *TEXTS)) if shape.enum else draw.choice(TEXTS)
