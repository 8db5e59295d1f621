"""How many records a second `next(stream)` gives, beside a plain boto3 loop and Bloop.

`python -m bench.stream` prints the ratios. All read the same streams of one embedded service, in
turns, so that whatever else the machine does slows all of them. Bloop is measured if it can be
installed into `.bench/bloop`, which is made for it.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import boto3

import shardline
from bench.environment import FOLDER
from bench.figures import Figure, ratios
from shardline.local import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

ROUNDS: Final = 5
TABLE: Final = "users"
TABLE_RECORDS: Final = 20_000
QUEUES: Final = {"orders-100": (100_000, 100), "orders-1000": (40_000, 1_000)}
SHARDS: Final = 2
BLOOP: Final = "bloop==3.1.1"
BLOOP_ENVIRONMENT: Final = FOLDER / "bloop"
AT_LEAST: Final = {"Bloop": 5.0, "boto3": 1.0}


class Took(NamedTuple):
    """What one run cost."""

    wall_seconds: float
    cpu_seconds: float


class User(shardline.Model):
    """What is in the table, typed."""

    class Meta:
        table = TABLE
        stream = {"include": ["new", "old"]}  # noqa: RUF012 - as our documentation writes it

    id: uuid.UUID = shardline.key()
    email: str
    verified: bool = False


# --- the service, in a process of its own -------------------------------------------------------


def serve(connection: Connection) -> None:
    """Fill an embedded service, tell where it is, and serve until told to stop."""
    with Service() as service:
        tables = service.dynamodb.tables
        arn = tables.create_table(TABLE, shards=SHARDS).stream_arn
        for number in range(TABLE_RECORDS):
            keys: dict[str, dict[str, Any]] = {"id": {"S": str(uuid.UUID(int=number))}}
            email = {"S": f"user-{number}@example.com"}
            old = {**keys, "email": email, "verified": {"BOOL": False}}
            new = {**keys, "email": email, "verified": {"BOOL": True}}
            tables.put_change(TABLE, keys, old=old, new=new)
        client = service.client("kinesis")
        for name, (count, size) in QUEUES.items():
            client.create_stream(StreamName=name, ShardCount=SHARDS)
            data = base64.b64encode(b"x" * (size * 3 // 4))
            for first in range(0, count, 500):
                client.put_records(
                    StreamName=name,
                    Records=[
                        {"PartitionKey": str(n), "Data": data} for n in range(first, first + 500)
                    ],
                )
        connection.send((service.endpoint_url, arn))
        connection.recv()


@contextmanager
def served() -> Iterator[tuple[str, str]]:
    """Run the service; yields its address and the table's stream."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        process.join()


# --- who reads ----------------------------------------------------------------------------------


def read_with_boto3(service: str, endpoint_url: str, stream: dict[str, str], count: int) -> None:
    """The loop that one writes by hand: every shard in turn, no order between them, no state."""
    client = boto3.client(
        service,
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - any will do
    )
    described = client.describe_stream(**stream)["StreamDescription"]
    limit = 1_000 if service == "dynamodbstreams" else 10_000
    for shard in described["Shards"]:
        iterator = client.get_shard_iterator(
            **stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = client.get_records(ShardIterator=iterator, Limit=limit)
            iterator = page["NextShardIterator"]
            if not page["Records"]:
                break
            for _ in page["Records"]:
                count -= 1
    assert count == 0


def read_with_stream(
    address: str, endpoint_url: str, count: int, use: Callable[[Any], object] | None = None
) -> None:
    """Read with `next(stream)`, looking at each record if told how."""
    with shardline.stream(address, "trim_horizon", endpoint_url=endpoint_url) as stream:
        while count:
            record = next(stream)
            if record is not None:
                count -= 1
                if use is not None:
                    use(record)


def read_with_engine(endpoint_url: str, count: int) -> None:
    """Read typed changes, as Bloop does."""
    engine = shardline.Engine(endpoint_url=endpoint_url, region="us-east-1")
    with engine.stream(User, "trim_horizon") as changes:
        while count:
            count -= next(changes) is not None


def timed(read: Callable[..., None], *arguments: object) -> Callable[[], Took]:
    """Make a reader tell what one run took."""

    def once() -> Took:
        wall, cpu = time.perf_counter(), time.process_time()
        read(*arguments)
        return Took(time.perf_counter() - wall, time.process_time() - cpu)

    return once


@contextmanager
def bloop(endpoint_url: str, arn: str) -> Iterator[Callable[[], Took] | None]:
    """Run Bloop in its own environment; yields what makes it read once, or None without it."""
    python = BLOOP_ENVIRONMENT / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(BLOOP_ENVIRONMENT)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", BLOOP], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Bloop cannot be installed, so it is not measured: {error}")
        yield None
        return
    script = Path(__file__).with_name("stream_bloop.py")
    command = [str(python), str(script), endpoint_url, arn, str(TABLE_RECORDS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def once() -> Took:
            print("go", file=stdin, flush=True)
            return Took(*json.loads(stdout.readline()))

        yield once
        stdin.close()


def run(rounds: int = ROUNDS) -> dict[str, dict[str, list[Took]]]:
    """Measure everybody in turns: the runs of each reader, for each stream."""
    results: dict[str, dict[str, list[Took]]] = {}
    with served() as (endpoint_url, arn), bloop(endpoint_url, arn) as read_with_bloop:
        address = f"dynamodb://{TABLE}"
        table: dict[str, Callable[[], Took]] = {
            "shardline": timed(read_with_stream, address, endpoint_url, TABLE_RECORDS),
            "shardline, images parsed": timed(
                read_with_stream, address, endpoint_url, TABLE_RECORDS, lambda r: (r.new, r.old)
            ),
            "shardline, typed": timed(read_with_engine, endpoint_url, TABLE_RECORDS),
            "boto3": timed(
                read_with_boto3, "dynamodbstreams", endpoint_url, {"StreamArn": arn}, TABLE_RECORDS
            ),
        }
        if read_with_bloop is not None:
            table["Bloop"] = read_with_bloop
        readers = {f"{TABLE}, {TABLE_RECORDS:,} changes": table}
        for name, (count, size) in QUEUES.items():
            readers[f"kinesis, {count:,} × {size} B"] = {
                "shardline": timed(read_with_stream, f"kinesis://{name}", endpoint_url, count),
                "boto3": timed(
                    read_with_boto3, "kinesis", endpoint_url, {"StreamName": name}, count
                ),
            }
        for stream_name, contestants in readers.items():
            runs: dict[str, list[Took]] = {name: [] for name in contestants}
            for _ in range(rounds):
                for name, read in contestants.items():
                    runs[name].append(read())
            results[stream_name] = runs
    return results


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure for `python -m bench`; a reader that could not be installed has its own line."""
    measured: list[Figure] = []
    for stream_name, runs in run(2 if quick else ROUNDS).items():
        ours = [each.wall_seconds for each in runs["shardline"]]
        for name, of_one in runs.items():
            if name != "shardline":
                theirs = [each.wall_seconds for each in of_one]
                measured.append(
                    Figure(
                        f"next(stream), {stream_name}",
                        name,
                        ratios(theirs, ours),
                        target=AT_LEAST.get(name),
                    )
                )
    if not any(figure.against == "Bloop" for figure in measured):
        measured.append(
            Figure("next(stream)", "Bloop", (), note=f"FAILED: {BLOOP} cannot be installed here")
        )
    return measured


def main() -> None:
    """Print the tables."""
    print(f"next(stream) beside others, {ROUNDS} interleaved rounds, {SHARDS} shards")
    for stream_name, runs in run().items():
        records = int(stream_name.split(", ")[1].split()[0].replace(",", ""))
        print(f"\n{stream_name}")
        print(f"{'':26} {'records/s':>11} {'µs CPU':>8} {'shardline is':>14}")
        for name, of_one in runs.items():
            wall = statistics.median(each.wall_seconds for each in of_one)
            cpu = statistics.median(each.cpu_seconds for each in of_one)
            ratio = statistics.median(
                theirs.wall_seconds / ours.wall_seconds
                for ours, theirs in zip(runs["shardline"], of_one, strict=True)
            )
            wanted = f"  (at least {AT_LEAST[name]:g})" if name in AT_LEAST else ""
            rate, micros = records / wall, cpu / records * 1e6
            print(f"{name:26} {rate:11,.0f} {micros:8.1f} {ratio:12.1f} ×{wanted}")


if __name__ == "__main__":
    main()
