"""How much faster a response body becomes Arrow columns than botocore parses the same records.

All decode the same records in turns; times are CPU time. What boto3 users have is botocore's parse
of JSON, so that is what CBOR is compared with, too.
"""

from __future__ import annotations

import base64
import json
import random
from typing import TYPE_CHECKING, Any, Final

import botocore.session
import msgspec
from botocore.parsers import create_parser

from bench.figures import Figure, in_turns, ratios
from shardline.services.wire import cbor
from shardline.services.wire.dynamodb import decode_dynamodb
from shardline.services.wire.kinesis import decode_kinesis, decode_simply

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 7
KINESIS_PAGES: Final = ((10_000, 100), (10_000, 1_000), (1_000, 10_000), (3, 1_000_000))
DYNAMODB_PAGE: Final = (1_000, 1_000)
FEW: Final = 1_000
"""Records in a page that are not held against the limits."""
_BYTES_A_ROUND: Final = 4_000_000


def records(count: int, record_bytes: int) -> list[dict[str, Any]]:
    """Return records of random data."""
    draw = random.Random(count * record_bytes)
    return [
        {
            "SequenceNumber": f"4965{10**51 + i * 7919}",
            "ApproximateArrivalTimestamp": cbor.Milliseconds(1_700_000_000_000 + i),
            "Data": draw.randbytes(record_bytes),
            "PartitionKey": f"customer-{draw.randrange(10_000)}",
        }
        for i in range(count)
    ]


def kinesis_body(count: int, record_bytes: int) -> bytes:
    """Return a body as Kinesis sends it: compact JSON, data in base64, times in milliseconds."""
    plain = [
        each
        | {
            "ApproximateArrivalTimestamp": each["ApproximateArrivalTimestamp"] / 1000,
            "Data": base64.b64encode(each["Data"]).decode(),
        }
        for each in records(count, record_bytes)
    ]
    return json.dumps(_answer(plain), separators=(",", ":")).encode()


def kinesis_cbor_body(count: int, record_bytes: int) -> bytes:
    """Return the same records in CBOR."""
    return cbor.encode(_answer(records(count, record_bytes)))


def _answer(listed: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Records": listed, "NextShardIterator": "A" * 200, "MillisBehindLatest": 0}


def dynamodb_body(count: int, item_bytes: int) -> bytes:
    """Return a body of changes to items of about this size, both images included."""
    fields = {f"field{i}": {"S": "x" * 40} for i in range(item_bytes // 60)}
    changes = [
        {
            "eventID": f"{i:032x}",
            "eventName": "MODIFY",
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": "eu-west-1",
            "dynamodb": {
                "ApproximateCreationDateTime": 1_700_000_000 + i,
                "Keys": {"id": {"S": str(i)}},
                "NewImage": {"id": {"S": str(i)}, **fields},
                "OldImage": {"id": {"S": str(i)}, **fields},
                "SequenceNumber": f"{10**20 + i}",
                "SizeBytes": item_bytes,
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        }
        for i in range(count)
    ]
    answer = {"Records": changes, "NextShardIterator": "A" * 200}
    return json.dumps(answer, separators=(",", ":")).encode()


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure every kind of page."""
    return [figure.as_json() for figure in _figures(3 if quick else ROUNDS)]


def _figures(rounds: int) -> list[Figure]:
    measured: list[Figure] = []
    for count, size in KINESIS_PAGES:
        measured += _kinesis(count, size, rounds)
    count, size = DYNAMODB_PAGE
    body = dynamodb_body(count, size)
    taken = in_turns(
        {
            "botocore": _few(_botocore_parse("dynamodbstreams", body), body),
            "ours": _many(lambda: decode_dynamodb(body), body),
        },
        rounds,
    )
    page = f"changes, {count:,} × {size:,} B"
    measured.append(Figure(page, "botocore's parse", ratios(taken["botocore"], taken["ours"])))
    return measured


def _kinesis(count: int, size: int, rounds: int) -> list[Figure]:
    text, binary = kinesis_body(count, size), kinesis_cbor_body(count, size)
    # No speed without the same result.
    assert decode_kinesis(text).records.equals(decode_kinesis(binary).records)
    assert decode_kinesis(text) == decode_simply(text)
    taken = in_turns(
        {
            "botocore": _few(_botocore_parse("kinesis", text), text),
            "JSON": _many(lambda: decode_kinesis(text), text),
            "CBOR": _many(lambda: decode_kinesis(binary), text),
            "memcpy": _many(lambda: bytearray(text), text),
            "json alone": _many(lambda: msgspec.json.decode(text), text),
        },
        rounds,
    )
    page = f"{count:,} × {size:,} B"
    measured = []
    for wire in ("JSON", "CBOR"):
        micros = sorted(taken[wire])[rounds // 2] / count * 1e6
        faster = ratios(taken["botocore"], taken[wire])
        note = f"{micros:.2f} µs a record"
        measured.append(Figure(f"{wire}, {page}", "botocore's parse", faster, note=note))
    limits_of = {"json alone": "msgspec to objects, nothing else", "memcpy": "memcpy of the body"}
    for name, limit in limits_of.items() if count > FEW else ():
        limits = ratios(taken["botocore"], taken[name])
        measured.append(Figure(f"{limit}, {page}", "botocore's parse", limits, note="a limit"))
    return measured


def _botocore_parse(service: str, body: bytes) -> Callable[[], object]:
    model = botocore.session.Session().get_service_model(service)
    shape = model.operation_model("GetRecords").output_shape
    parser = create_parser(model.resolved_protocol)
    response = {"body": body, "status_code": 200, "headers": {}}
    return lambda: parser.parse(response, shape)


def _few(action: Callable[[], object], body: bytes) -> tuple[Callable[[], object], int]:
    return action, max(1, _BYTES_A_ROUND // 2 // len(body))


def _many(action: Callable[[], object], body: bytes) -> tuple[Callable[[], object], int]:
    return action, max(5, 5 * _BYTES_A_ROUND // len(body))
