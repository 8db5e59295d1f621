"""How much faster a response body becomes Arrow columns than botocore parses it.

`python -m bench.wire` prints the ratios. Both decode the same body in turns, so that whatever else
the machine does slows both; times are CPU time.
"""

from __future__ import annotations

import base64
import json
import random
import statistics
import time
from typing import TYPE_CHECKING, Any, Final

import botocore.session
from botocore.parsers import create_parser

from shardline.services.wire_dynamodb import decode_dynamodb
from shardline.services.wire_kinesis import decode_kinesis

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 7
KINESIS_PAGES: Final = ((10_000, 100), (10_000, 1_000), (500, 1_000), (100, 10_000))
DYNAMODB_PAGES: Final = ((1_000, 1_000),)


def kinesis_body(count: int, record_bytes: int) -> bytes:
    """Return a body as Kinesis sends it: compact JSON, data in base64, times in milliseconds."""
    draw = random.Random(count * record_bytes)
    records = [
        {
            "SequenceNumber": f"4965{10**51 + i * 7919}",
            "ApproximateArrivalTimestamp": 1_700_000_000 + i / 1000,
            "Data": base64.b64encode(draw.randbytes(record_bytes)).decode(),
            "PartitionKey": f"customer-{draw.randrange(10_000)}",
        }
        for i in range(count)
    ]
    answer = {"Records": records, "NextShardIterator": "A" * 200, "MillisBehindLatest": 0}
    return json.dumps(answer, separators=(",", ":")).encode()


def dynamodb_body(count: int, item_bytes: int) -> bytes:
    """Return a body of changes to items of about this size, both images included."""
    fields = {f"field{i}": {"S": "x" * 40} for i in range(item_bytes // 60)}
    records = [
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
    answer = {"Records": records, "NextShardIterator": "A" * 200}
    return json.dumps(answer, separators=(",", ":")).encode()


def run(rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Measure every kind of page; `ratio` is the median of the rounds' ratios."""
    pages = [
        ("kinesis", kinesis_body, decode_kinesis, count, size) for count, size in KINESIS_PAGES
    ] + [
        ("dynamodbstreams", dynamodb_body, decode_dynamodb, count, size)
        for count, size in DYNAMODB_PAGES
    ]
    return [
        {"service": service, "records": count, "record_bytes": size}
        | _compare(body(count, size), decode, service, rounds)
        for service, body, decode, count, size in pages
    ]


def _compare(
    body: bytes, decode: Callable[[bytes], object], service: str, rounds: int
) -> dict[str, Any]:
    model = botocore.session.Session().get_service_model(service)
    shape = model.operation_model("GetRecords").output_shape
    parser = create_parser(model.resolved_protocol)
    response = {"body": body, "status_code": 200, "headers": {}}
    repeats = max(1, 2_000_000 // len(body))
    ratios, micros = [], []
    for _ in range(rounds):
        theirs = _cpu_seconds(lambda: parser.parse(response, shape), repeats)
        ours = _cpu_seconds(lambda: decode(body), repeats * 5) / 5
        ratios.append(theirs / ours)
        micros.append(ours / repeats * 1e6)
    return {
        "body_bytes": len(body),
        "micros": statistics.median(micros),
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


def _cpu_seconds(action: Callable[[], object], repeats: int) -> float:
    started = time.process_time()
    for _ in range(repeats):
        action()
    return time.process_time() - started


def main() -> None:
    """Print the table."""
    print(f"body → Arrow against botocore's parse, CPU time, {ROUNDS} interleaved rounds")
    print(f"{'service':16} {'page':>16} {'ratio':>7} {'lowest':>7} {'highest':>7} {'µs':>9}")
    for row in run():
        page = f"{row['records']:,} × {row['record_bytes']:,} B"
        print(
            f"{row['service']:16} {page:>16} {row['ratio']:6.1f}× {row['lowest']:6.1f}× "
            f"{row['highest']:6.1f}× {row['micros']:9,.0f}"
        )


if __name__ == "__main__":
    main()
