"""The fixtures that shardline gives to other people's tests, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

USERS_TESTS = """
import shardline
from shardline.core.fences import Fence
from shardline.core.promise import RecordRef


def test_a_stream(kinesis_stream, promise_checker):
    orders = kinesis_stream(shards=2)
    for number in range(4):
        data = b"%d" % number
        put = orders.client.put_record(StreamName=orders.name, PartitionKey="k", Data=data)
        record = RecordRef("k", int(put["SequenceNumber"]))
        promise_checker.wrote(put["ShardId"], record)
    url = orders.endpoint_url
    with shardline.stream(orders.address, "trim_horizon", endpoint_url=url) as stream:
        for expected in range(4):
            record = next(stream)
            assert record.data == b"%d" % expected
            if not LOSES or expected != 2:
                ref = RecordRef("k", int(record.sequence_number))
                promise_checker.delivered(record.shard_id, FENCE, [ref])


def test_a_table(dynamodb_table):
    users = dynamodb_table(range_key="at")
    users.client.put_item(TableName=users.name, Item={"id": {"S": "a"}, "at": {"S": "b"}})
    url = users.endpoint_url
    with shardline.stream(users.address, "trim_horizon", endpoint_url=url) as stream:
        assert next(stream).keys == {"id": {"S": "a"}, "at": {"S": "b"}}


def test_the_same_service(shardline_service, kinesis_stream):
    assert kinesis_stream("named").endpoint_url == shardline_service.endpoint_url
"""


def run(folder: Path, *, loses: bool) -> subprocess.CompletedProcess[str]:
    tests = USERS_TESTS.replace("LOSES", str(loses)).replace("FENCE", "Fence(1, 1)")
    folder.joinpath("test_mine.py").write_text(tests)
    installed = any(
        each.value == "shardline.pytest_plugin" for each in entry_points(group="pytest11")
    )
    loaded = [] if installed else ["-p", "shardline.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *loaded, "test_mine.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_users_tests_get_streams_tables_and_a_judge(tmp_path: Path) -> None:
    ran = run(tmp_path, loses=False)
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout


def test_the_judge_finds_a_record_that_a_test_lost(tmp_path: Path) -> None:
    ran = run(tmp_path, loses=True)
    assert ran.returncode == 1, ran.stdout
    assert "PromiseBroken" in ran.stdout
    assert "3 passed, 1 error" in ran.stdout
