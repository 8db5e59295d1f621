"""PutRecords: records of one shard are written together, and each is judged alone."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from shardline.local.faults import Faults
from shardline.local.kinesis.account import Account
from shardline.local.kinesis.operations import Kinesis
from shardline.local.limits import Limits, ShardRates
from shardline.local.settings import Settings

_LOW, _HIGH = "0", str(2**128 - 1)


class _Stream:
    """A stream of two shards with limits."""

    def __init__(self, **rates: int) -> None:
        self.faults = Faults()
        limits = Limits(enabled=True, rates=ShardRates(**rates))
        self._kinesis = Kinesis(Account(self.faults, limits, Settings()))
        self._call("CreateStream", {"StreamName": "s", "ShardCount": 2})

    def put(self, *records: tuple[str, bytes]) -> list[dict[str, str]]:
        entries = [
            {
                "PartitionKey": "k",
                "ExplicitHashKey": hash_key,
                "Data": b64encode(data).decode(),
            }
            for hash_key, data in records
        ]
        answer = self._call("PutRecords", {"StreamName": "s", "Records": entries})
        results: list[dict[str, str]] = answer["Records"]
        assert answer["FailedRecordCount"] == sum("ErrorCode" in each for each in results)
        return results

    def read(self, shard_id: str) -> list[str]:
        place = {"StreamName": "s", "ShardId": shard_id, "ShardIteratorType": "TRIM_HORIZON"}
        iterator = self._call("GetShardIterator", place)["ShardIterator"]
        records = self._call("GetRecords", {"ShardIterator": iterator})["Records"]
        return [record["SequenceNumber"] for record in records]

    def _call(self, operation: str, request: dict[str, Any]) -> Any:
        return json.loads(self._kinesis.call(operation, request, 1_000_000) or b"{}")


def test_each_record_has_its_shard_and_a_number_that_rises_through_the_request() -> None:
    stream = _Stream()
    results = stream.put((_LOW, b"1"), (_LOW, b"2"), (_HIGH, b"3"), (_LOW, b"4"), (_HIGH, b"5"))
    numbers = [int(each["SequenceNumber"]) for each in results]
    ticks = [str(number)[:-12] for number in numbers]
    assert ticks == sorted(set(ticks))
    for shard_id in {each["ShardId"] for each in results}:
        written = [e["SequenceNumber"] for e in results if e["ShardId"] == shard_id]
        assert stream.read(shard_id) == written
    assert [each["ShardId"][-1] for each in results] == ["0", "0", "1", "0", "1"]


@pytest.mark.req("K-01")
def test_where_not_all_records_of_a_shard_fit_each_is_judged_alone() -> None:
    stream = _Stream(written_bytes=10)
    results = stream.put((_LOW, b"four"), (_LOW, b"too large"), (_LOW, b"two"), (_HIGH, b"five "))
    assert ["ErrorCode" in each for each in results] == [False, True, False, False]
    written = [each["SequenceNumber"] for each in results if "SequenceNumber" in each]
    assert stream.read("shardId-000000000000") == written[:2]


def test_a_fault_of_one_shard_refuses_records_of_that_shard_only() -> None:
    stream = _Stream()
    stream.faults.add("throttle", "PutRecords", shard_id="shardId-000000000001", times=1)
    results = stream.put((_LOW, b"1"), (_HIGH, b"2"), (_HIGH, b"3"))
    assert ["ErrorCode" in each for each in results] == [False, True, False]
