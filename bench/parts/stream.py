"""What `next(stream)` and typed changes cost in CPU, beside a plain boto3 loop and Bloop.

All read the same streams of one embedded service, in turns. It has no limits, but `next(stream)`
keeps the pace of a shard all the same: so the CPU of the readers is compared, not their time.
Clients and streams are opened before the clock starts. What each delivers is checked once by the
promise checker.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import subprocess
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import boto3

import shardline
from bench.contenders import SCRIPTS, bloop_python
from bench.figures import Figure, ratios
from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.local import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

ROUNDS: Final = 2
TABLE: Final = "users"
TABLE_RECORDS: Final = 20_000
ITEMS: Final = 4_000
QUEUES: Final = {"orders-100": (100_000, 100), "orders-1000": (16_000, 1_000)}
SHARDS: Final = 2
BLOOP_SECONDS: Final = 60.0
REST_SECONDS: Final = 0.005
"""When there is nothing now, as one would write it."""
OURS, TYPED = "next(stream)", "next(stream), typed"


class Took(NamedTuple):
    """What one run cost."""

    wall_seconds: float
    cpu_seconds: float


class Put(NamedTuple):
    """One record that was written."""

    shard_id: str
    sequence_number: str
    key: str


class Served(NamedTuple):
    """Where the streams are, and what was written to each."""

    endpoint_url: str
    stream_arn: str
    written: dict[str, list[Put]]

    def judge(self, stream: str, delivered: list[str]) -> None:
        """Hold the sequence numbers that a reader gave out against what was written."""
        checker = PromiseChecker()
        refs: dict[str, tuple[str, RecordRef]] = {}
        for shard_id, number, key in self.written[stream]:
            refs[number] = shard_id, RecordRef(key, int(number))
            checker.wrote(*refs[number])
        for number in delivered:
            shard_id, record = refs[number]
            checker.delivered(shard_id, Fence(), [record])
        checker.verdict().require()


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
    """Fill an embedded service, send its address, and serve until the other side is closed."""
    with Service() as service:
        tables = service.dynamodb.tables
        arn = tables.create_table(TABLE, shards=SHARDS).stream_arn
        written: dict[str, list[Put]] = {TABLE: []}
        for number in range(TABLE_RECORDS):
            key = str(uuid.UUID(int=number % ITEMS))
            keys: dict[str, dict[str, Any]] = {"id": {"S": key}}
            email = {"S": f"user-{number}@example.com"}
            old = {**keys, "email": email, "verified": {"BOOL": False}}
            new = {**keys, "email": email, "verified": {"BOOL": True}}
            put = tables.put_change(TABLE, keys, old=old, new=new)
            written[TABLE].append(Put(put.shard, put.sequence_number, key))
        client = service.client("kinesis")
        for name, (count, size) in QUEUES.items():
            client.create_stream(StreamName=name, ShardCount=SHARDS)
            written[name] = []
            for first in range(0, count, 500):
                keys_of = [f"customer-{n % 1_000}" for n in range(first, first + 500)]
                records = [{"PartitionKey": key, "Data": b"x" * size} for key in keys_of]
                answers = client.put_records(StreamName=name, Records=records)["Records"]
                written[name] += [
                    Put(each["ShardId"], each["SequenceNumber"], key)
                    for each, key in zip(answers, keys_of, strict=True)
                ]
        connection.send((service.endpoint_url, arn, written))
        with suppress(EOFError):
            connection.recv()


@contextmanager
def served() -> Iterator[Served]:
    """Run the service."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    theirs.close()  # so that a service that dies is the end of our waiting
    try:
        yield Served(*ours.recv())
    finally:
        ours.close()
        process.join()


# --- who reads ----------------------------------------------------------------------------------


class _Clock:
    """Stopped at the end of its block."""

    def __enter__(self) -> Self:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.took = Took(time.perf_counter() - self._wall, time.process_time() - self._cpu)


def with_boto3(service: str, endpoint_url: str, stream: dict[str, str], count: int) -> Any:
    """The loop that one writes by hand: every shard in turn, no order between them, no state."""
    client = boto3.client(
        service,
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - any will do
    )
    limit = 1_000 if service == "dynamodbstreams" else 10_000

    def read(numbers: list[str] | None) -> Took:
        left = count
        with _Clock() as clock:
            described = client.describe_stream(**stream)["StreamDescription"]
            for shard in described["Shards"]:
                iterator = client.get_shard_iterator(
                    **stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
                )["ShardIterator"]
                while iterator:
                    page = client.get_records(ShardIterator=iterator, Limit=limit)
                    iterator = page["NextShardIterator"]
                    if not page["Records"]:
                        break
                    for record in page["Records"]:
                        left -= 1
                        if numbers is not None:
                            found = record.get("dynamodb", record)
                            numbers.append(found["SequenceNumber"])
        assert left == 0
        return clock.took

    return read


def with_stream(address: str, endpoint_url: str, count: int, *, parsed: bool = False) -> Any:
    """`next(stream)`; `parsed` looks at both images of each change."""

    def read(numbers: list[str] | None) -> Took:
        left = count
        with shardline.stream(address, "trim_horizon", endpoint_url=endpoint_url) as stream:
            with _Clock() as clock:
                while left:
                    record = next(stream)
                    if record is None:
                        time.sleep(REST_SECONDS)
                    else:
                        left -= 1
                        if parsed:
                            _ = record.new, record.old
                        if numbers is not None:
                            numbers.append(record.sequence_number)
            return clock.took

    return read


def with_engine(endpoint_url: str, count: int) -> Any:
    """Typed changes: keys, both images and what the service says of each, as Bloop gives them."""
    engine = shardline.Engine(endpoint_url=endpoint_url, region="us-east-1")

    def read(numbers: list[str] | None) -> Took:
        left = count
        with engine.stream(User, "trim_horizon") as changes:
            with _Clock() as clock:
                while left:
                    change = next(changes)
                    if change is None:
                        time.sleep(REST_SECONDS)
                    else:
                        left -= 1
                        if numbers is not None:
                            numbers.append(change["meta"]["sequence_number"])
            return clock.took

    return read


@contextmanager
def with_bloop(server: Served) -> Iterator[Any]:
    """Run Bloop in its own environment; yields what makes it read once."""
    command = [str(bloop_python()), str(SCRIPTS / "bloop_reader.py")]
    command += [server.endpoint_url, server.stream_arn, str(TABLE_RECORDS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def read(numbers: list[str] | None) -> Took:
            print("numbers" if numbers is not None else "go", file=stdin, flush=True)
            patience = threading.Timer(BLOOP_SECONDS, process.kill)
            patience.start()
            line = stdout.readline()
            patience.cancel()
            if not line:
                raise TimeoutError(f"not at its end after {BLOOP_SECONDS:.0f} s")
            answer = json.loads(line)
            if numbers is not None:
                numbers += answer["numbers"]
            return Took(*answer["took"])

        try:
            yield read
        finally:
            stdin.close()


# --- what is measured ---------------------------------------------------------------------------


def compare(
    server: Served, stream: str, readers: dict[str, Any], rounds: int
) -> tuple[dict[str, list[Took]], dict[str, str]]:
    """Judge each reader once, then measure all in turns; return the runs, and who failed."""
    runs: dict[str, list[Took]] = {name: [] for name in readers}
    errors: dict[str, str] = {}
    for turn in range(rounds + 1):
        for name, read in readers.items():
            if name in errors:
                continue
            try:
                if turn == 0:  # which also warms up
                    delivered: list[str] = []
                    read(delivered)
                    server.judge(stream, delivered)
                else:
                    runs[name].append(read(None))
            except Exception as error:
                lines = str(error).splitlines()
                errors[name] = f"{type(error).__name__}: {lines[-1] if lines else ''}"
    return runs, errors


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure everybody on every stream; a reader that cannot run has its own line."""
    return [figure.as_json() for figure in _measured(2 if quick else ROUNDS)]


def _measured(rounds: int) -> list[Figure]:
    with served() as server:
        url, count = server.endpoint_url, TABLE_RECORDS
        readers = {
            OURS: with_stream(f"dynamodb://{TABLE}", url, count),
            f"{OURS}, images parsed": with_stream(f"dynamodb://{TABLE}", url, count, parsed=True),
            TYPED: with_engine(url, count),
            "boto3 loop": with_boto3(
                "dynamodbstreams", url, {"StreamArn": server.stream_arn}, count
            ),
        }
        title = f"{count:,} changes"
        try:
            with with_bloop(server) as bloop:
                runs, errors = compare(server, TABLE, {**readers, "Bloop 3.1.1": bloop}, rounds)
        except RuntimeError as error:  # it cannot be installed
            runs, errors = compare(server, TABLE, readers, rounds)
            errors["Bloop 3.1.1"] = str(error)
        measured = _figures(title, count, runs, errors, "Bloop 3.1.1")
        measured += _figures(title, count, runs, {}, "boto3 loop")
        for name, (count, size) in QUEUES.items():
            readers = {
                OURS: with_stream(f"kinesis://{name}", url, count),
                "boto3 loop": with_boto3("kinesis", url, {"StreamName": name}, count),
            }
            runs, errors = compare(server, name, readers, rounds)
            title = f"{count:,} × {size} B of Kinesis"
            measured += _figures(title, count, runs, errors, "boto3 loop")
    return measured


def _figures(
    title: str,
    count: int,
    runs: dict[str, list[Took]],
    errors: dict[str, str],
    other: str,
) -> list[Figure]:
    failed = [
        Figure(f"{name}, {title}", other, (), note=f"FAILED: {error}")
        for name, error in errors.items()
    ]
    theirs = [each.cpu_seconds for each in runs.get(other, [])]
    ours = {name: runs[name] for name in runs if name.startswith(OURS) and runs[name]}
    return failed + [
        Figure(
            f"{name}, {title}",
            other,
            ratios(theirs, [each.cpu_seconds for each in taken]),
            note=f"{statistics.median(t.cpu_seconds for t in taken) / count * 1e6:.1f} "
            "CPU s a million records",
        )
        for name, taken in ours.items()
        if theirs and len(theirs) == len(taken)
    ]
