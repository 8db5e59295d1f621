"""The embedded service with a file: what it acknowledged is there again, whatever ended it."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shardline.errors import ConfigurationError
from shardline.local import Clock, Service
from tests.contract.reading import wait_until
from tests.integration.kinesis_calls import control
from tests.twins.kinesis import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAM = "kept"


def client_of(endpoint_url: str) -> Any:
    return boto3.client(
        "kinesis",
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - any will do
        config=Config(retries={"total_max_attempts": 1}),
    )


@contextmanager
def running(file: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `shardline local` with a file in a process of its own."""
    command = [
        str(Path(sys.executable).with_name("shardline")),
        "local",
        "--port",
        "0",
        "--file",
        str(file),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+?(?=:? )", line)
            assert found, line
            yield process, found[0].rstrip(":")
        finally:
            process.kill()


def everything(client: Any, name: str = STREAM) -> dict[str, Any]:
    """Return what can be seen of a stream: its lineage and all that it holds."""
    shards = client.list_shards(StreamName=name)["Shards"]
    held = {}
    for shard in shards:
        start = {"StreamName": name, "ShardId": shard["ShardId"]}
        iterator = client.get_shard_iterator(**start, ShardIteratorType="TRIM_HORIZON")
        held[shard["ShardId"]] = read_on(client, iterator["ShardIterator"])
    described = client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    return {"shards": shards, "held": held, "described": described}


def read_on(client: Any, iterator: str | None) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    while iterator:
        page = client.get_records(ShardIterator=iterator)
        records += page["Records"]
        iterator = page.get("NextShardIterator")
        if not page["MillisBehindLatest"]:
            break
    return records


class Load:
    """Writers, a reader and a resharder that note only what was answered, until it breaks."""

    def __init__(self, endpoint_url: str, seed: int) -> None:
        self.written: list[tuple[str, str, bytes]] = []
        self.read: list[tuple[str, str, bytes]] = []
        self.iterators: list[tuple[str, str, int]] = []
        """An iterator, its shard, and how many records lay before it."""
        self.resharded: list[str] = []
        self._endpoint_url = endpoint_url
        self._rng = random.Random(seed)
        self._failures: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._until_it_breaks, args=(act, number))
            for number, act in enumerate((self._write, self._write, self._read, self._reshard))
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
        for failure in self._failures:
            raise failure

    def _until_it_breaks(self, act: Any, number: int) -> None:
        client = client_of(self._endpoint_url)
        try:
            while True:
                act(client, number)
        except BotoCoreError:
            pass  # the service was killed
        except Exception as error:
            self._failures.append(error)

    def _write(self, client: Any, number: int) -> None:
        data = [f"{number}-{len(self.written)}-{n}".encode() for n in range(5)]
        records = [{"PartitionKey": each.decode(), "Data": each} for each in data]
        answer = client.put_records(StreamName=STREAM, Records=records)
        self.written += [
            (each["ShardId"], each["SequenceNumber"], sent)
            for each, sent in zip(answer["Records"], data, strict=True)
        ]

    def _read(self, client: Any, _number: int) -> None:
        for shard in client.list_shards(StreamName=STREAM)["Shards"]:
            start = {"StreamName": STREAM, "ShardId": shard["ShardId"]}
            iterator = client.get_shard_iterator(**start, ShardIteratorType="TRIM_HORIZON")
            page = client.get_records(ShardIterator=iterator["ShardIterator"])
            self.read += [
                (shard["ShardId"], each["SequenceNumber"], each["Data"]) for each in page["Records"]
            ]
            if page.get("NextShardIterator"):
                place = page["NextShardIterator"], shard["ShardId"], len(page["Records"])
                self.iterators.append(place)

    def _reshard(self, client: Any, _number: int) -> None:
        time.sleep(0.05)  # so that there are records between reshards
        shards = client.list_shards(StreamName=STREAM, ShardFilter={"Type": "AT_LATEST"})["Shards"]
        shard = self._rng.choice(shards)
        low, high = (int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
        if len(shards) < 8:
            client.split_shard(
                StreamName=STREAM,
                ShardToSplit=shard["ShardId"],
                NewStartingHashKey=str((low + high + 1) // 2),
            )
            self.resharded.append(shard["ShardId"])
        else:
            client.update_shard_count(
                StreamName=STREAM, TargetShardCount=2, ScalingType="UNIFORM_SCALING"
            )


def test_nothing_acknowledged_or_seen_is_lost_by_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "local.db"
    with running(file) as (_, endpoint_url):
        client_of(endpoint_url).create_stream(StreamName=STREAM, ShardCount=2)
    known: dict[tuple[str, str], bytes] = {}
    for seed in range(3):
        with running(file) as (process, endpoint_url):
            load = Load(endpoint_url, seed)
            wait_until(lambda: len(load.written) > 400 and len(load.resharded) > 2, "load")  # noqa: B023
            process.send_signal(signal.SIGKILL)
            load.join()
        with running(file) as (_, endpoint_url):
            client = client_of(endpoint_url)
            after = everything(client)
            held = {
                (shard_id, each["SequenceNumber"]): each["Data"]
                for shard_id, records in after["held"].items()
                for each in records
            }
            for shard_id, number, data in (*load.written, *load.read):
                known[shard_id, number] = data
            assert {place: held.get(place) for place in known} == known
            parents = {shard.get("ParentShardId") for shard in after["shards"]}
            assert parents >= set(load.resharded)
            for iterator, shard_id, before in load.iterators[-20:]:
                rest = read_on(client, iterator)
                assert rest == after["held"][shard_id][before:]
            for records in after["held"].values():
                numbers = [int(each["SequenceNumber"]) for each in records]
                assert numbers == sorted(set(numbers))


def test_two_services_do_not_share_a_file(tmp_path: Path) -> None:
    with (
        Service(file=tmp_path / "a.db"),
        pytest.raises(ConfigurationError, match=r"a\.db.*another service"),
    ):
        Service(file=tmp_path / "a.db")
    with pytest.raises(ConfigurationError, match="check path"):
        Service(file=tmp_path / "missing" / "a.db")


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(ConfigurationError, match="another version"):
        Service(file=tmp_path / "a.db")


@pytest.mark.parametrize("seed", range(6))
def test_a_service_that_is_started_again_says_the_same(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    file = tmp_path / "a.db"
    clock = Clock(EPOCH)
    expected: dict[str, Any] | None = None
    for _ in range(4):
        # The second clock starts at the epoch again: the file knows how far it had come.
        delay = rng.choice([0, 0, 3])
        with Service(file=file, clock=Clock(EPOCH), status_delay_seconds=delay) as service:
            client, clock = service.client(), service.clock
            if expected is None:
                client.create_stream(StreamName=STREAM, ShardCount=rng.randint(1, 3))
                clock.advance(delay)
            else:
                assert everything(client) == expected
            for _ in range(25):
                _do_something(client, clock, rng)
            clock.advance(delay)
            client.put_record(StreamName=STREAM, PartitionKey="last", Data=b"last")
            expected = everything(client)


def _do_something(client: Any, clock: Clock, rng: random.Random) -> None:
    clock.advance(rng.choice([0, 0.001, 1, 3600 * 5]))
    described = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    if described["StreamStatus"] == "CREATING":
        clock.advance(3)
        return
    action = rng.randrange(12)
    if action < 7:
        keys = [str(rng.randrange(50)) for _ in range(rng.randint(1, 5))]
        records = [{"PartitionKey": key, "Data": key.encode()} for key in keys]
        client.put_records(StreamName=STREAM, Records=records)
        return
    try:
        if action < 10:
            client.update_shard_count(
                StreamName=STREAM,
                TargetShardCount=rng.randint(1, 5),
                ScalingType="UNIFORM_SCALING",
            )
        elif action < 11:
            client.increase_stream_retention_period(
                StreamName=STREAM, RetentionPeriodHours=rng.choice([24, 48])
            )
        else:
            client.delete_stream(StreamName=STREAM)
            clock.advance(3)
            client.create_stream(StreamName=STREAM, ShardCount=2)
            clock.advance(3)
    except ClientError as error:  # busy with the change before, or the wrong way
        if error.response["Error"]["Code"] not in (
            "ResourceInUseException",
            "InvalidArgumentException",
        ):
            raise


def test_records_that_time_has_taken_leave_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with Service(file=file, clock=Clock(EPOCH)) as service:
        client = service.client()
        client.create_stream(StreamName=STREAM, ShardCount=1)
        for _ in range(20):
            client.put_record(StreamName=STREAM, PartitionKey="a", Data=os.urandom(10_000))
        service.clock.advance(25 * 3600)
        last = client.put_record(StreamName=STREAM, PartitionKey="a", Data=b"last")
    for _ in range(2):
        with Service(file=file, clock=Clock(EPOCH)) as service:
            [shard] = everything(service.client())["held"].values()
            assert [each["SequenceNumber"] for each in shard] == [last["SequenceNumber"]]
    with sqlite3.connect(file) as database:
        (size,) = database.execute("SELECT sum(length(content)) FROM entries").fetchone()
    database.close()
    assert size < 10_000


def test_a_clock_that_was_moved_goes_on_from_there(tmp_path: Path) -> None:
    with Service(file=tmp_path / "a.db") as service:
        before = service.clock.now_ms()
        assert control(service, "clock/advance", seconds=86_400)["now_ms"] > before
    with Service(file=tmp_path / "a.db") as service:
        assert service.clock.now_ms() >= before + 86_400_000


def test_tables_are_kept_too(tmp_path: Path) -> None:
    def seen(service: Service) -> Any:
        client = service.client("dynamodbstreams")
        arn = client.list_streams(TableName="users")["Streams"][-1]["StreamArn"]
        description = client.describe_stream(StreamArn=arn)["StreamDescription"]
        pages = []
        for shard in description["Shards"]:
            start = {"StreamArn": arn, "ShardId": shard["ShardId"]}
            iterator = client.get_shard_iterator(**start, ShardIteratorType="TRIM_HORIZON")
            page = client.get_records(ShardIterator=iterator["ShardIterator"])
            pages.append(page["Records"])
        return description, pages

    with Service(file=tmp_path / "a.db", clock=Clock(EPOCH)) as service:
        tables = service.tables
        [root] = tables.create_table("users").shards
        tables.put_change("users", {"id": {"S": "a"}}, new={"id": {"S": "a"}, "b": {"B": b"\xff"}})
        left, _ = tables.split("users", root).children
        tables.put_change("users", {"id": {"S": "a"}}, at=EPOCH, old={"id": {"S": "a"}})
        service.clock.advance(10)
        control(service, "dynamodb/roll", table="users", shard=left)
        expected = seen(service)
        assert sum(map(len, expected[1])) == 2
    with Service(file=tmp_path / "a.db", clock=Clock(EPOCH)) as service:
        assert seen(service) == expected


def test_a_disk_that_takes_no_more_stops_the_service_from_acknowledging(tmp_path: Path) -> None:
    with Service(file=tmp_path / "a.db") as service:
        client = service.client(config=Config(retries={"total_max_attempts": 1}))
        client.create_stream(StreamName=STREAM, ShardCount=1)
        journal = service._journal
        assert journal is not None
        pages = journal._database.execute("PRAGMA page_count").fetchone()[0]
        journal._database.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(ClientError, match="cannot be written"):
            client.put_record(StreamName=STREAM, PartitionKey="a", Data=os.urandom(100_000))
        with pytest.raises(ClientError, match="cannot be written"):
            client.describe_stream_summary(StreamName=STREAM)
    with Service(file=tmp_path / "a.db") as service:
        assert everything(service.client())["held"] == {"shardId-000000000000": []}


# --- permissions, damage, a full disk ---------------------------------------------------------


@pytest.mark.req("E-05")
def test_the_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    before = os.umask(0)
    try:
        with Service(file=file) as service:
            service.create_stream(STREAM)
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}, modes
    file.chmod(0o644)
    Service(file=file).stop()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.req("E-06")
def test_after_a_full_disk_it_goes_on_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with Service(file=file) as service:
        service.create_stream(STREAM)
        client = client_of(service.endpoint_url)
        journal = service._journal
        assert journal is not None

        def write(data: bytes) -> None:
            client.put_record(StreamName=STREAM, PartitionKey="a", Data=data)
            acknowledged.append(data)

        def fill() -> None:
            for number in range(200):
                write(b"%d" % number + bytes(10_000))

        acknowledged: list[bytes] = []
        write(b"before")
        (pages,) = journal._database.execute("PRAGMA page_count").fetchone()
        journal._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(ClientError, match=r"InternalFailure.*free space"):
            fill()
        for _ in range(20):
            with pytest.raises(ClientError, match="free space"):
                write(b"refused" + bytes(10_000))
        with pytest.raises(ClientError, match="free space"):
            client.list_streams()
        assert len(journal._pending) <= 1  # nothing piles up in memory
        journal._database.execute("PRAGMA max_page_count = 1000000")
        write(b"after")
    with Service(file=file) as service:
        [held] = everything(service.client())["held"].values()
        data = [each["Data"] for each in held]
        assert [each for each in data if each in acknowledged] == acknowledged
