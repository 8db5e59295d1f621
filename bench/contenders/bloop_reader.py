"""Bloop, for `bench.parts.stream`: reads the same stream once for each line on standard input.

It runs in an environment of its own. It prints a line of JSON each time: the seconds that it took,
wall and CPU, and after "numbers" also the sequence numbers of what it delivered.
"""

# mypy: ignore-errors

import json
import sys
import time

import boto3
from bloop import UUID, BaseModel, Boolean, Column, Engine, String

endpoint_url, stream_arn, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


class User(BaseModel):
    class Meta:
        stream = {"include": {"keys"}}  # noqa: RUF012

    id = Column(UUID, hash_key=True)
    email = Column(String)
    verified = Column(Boolean)


# Bloop's include is a set of views; the stream exists already, so nothing is bound.
User.Meta.stream = {"include": {"key", "new", "old"}, "arn": stream_arn}
where = {
    "endpoint_url": endpoint_url,
    "region_name": "us-east-1",
    "aws_access_key_id": "local",
    "aws_secret_access_key": "local",
}
engine = Engine(
    dynamodb=boto3.client("dynamodb", **where),
    dynamodbstreams=boto3.client("dynamodbstreams", **where),
)

for asked in sys.stdin:
    stream = engine.stream(User, "trim_horizon")
    numbers = [] if asked.strip() == "numbers" else None
    left = count
    wall, cpu = time.perf_counter(), time.process_time()
    while left:
        record = next(stream)
        if record is None:
            time.sleep(0.005)
        else:
            left -= 1
            if numbers is not None:
                numbers.append(record["meta"]["sequence_number"])
    took = [time.perf_counter() - wall, time.process_time() - cpu]
    print(json.dumps({"took": took, "numbers": numbers}), flush=True)
