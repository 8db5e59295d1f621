"""Faults and limits that are set, as boto3 meets them over HTTP."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from shardline.local import Service
from tests.integration.kinesis_calls import (
    SIGNED,
    client_of,
    control,
    iterator,
    listed,
    put,
    read,
    shard,
)

if TYPE_CHECKING:
    from shardline.local.faults import FaultKind

STREAM = {"StreamName": "orders"}


@pytest.fixture
def kinesis(service: Service) -> Any:
    kinesis = client_of(service)
    kinesis.create_stream(**STREAM, ShardCount=2)
    return kinesis


def error_of(kinesis: Any, operation: str, **request: Any) -> str:
    with pytest.raises(ClientError) as refused:
        getattr(kinesis, operation)(**request)
    code: str = refused.value.response["Error"]["Code"]
    return code


def held(kinesis: Any) -> list[bytes]:
    return read(kinesis, iterator(kinesis, STREAM, 0, "TRIM_HORIZON"))[0]


# --- faults -----------------------------------------------------------------------------------


def test_throttling_by_the_exception_of_the_operation(kinesis: Any, service: Service) -> None:
    service.faults.add("throttle", "GetRecords", times=2)
    service.faults.add("throttle", "ListShards")
    opened = iterator(kinesis, STREAM, 0, "LATEST")
    for _ in range(2):
        code = error_of(kinesis, "get_records", ShardIterator=opened)
        assert code == "ProvisionedThroughputExceededException"
    assert read(kinesis, opened)[0] == []
    assert error_of(kinesis, "list_shards", **STREAM) == "LimitExceededException"
    assert len(listed(kinesis, **STREAM)) == 2


def test_a_fault_of_one_shard_spares_the_others(kinesis: Any, service: Service) -> None:
    service.faults.add("throttle", "GetRecords", shard_id=shard(1), times=None)
    assert held(kinesis) == []
    opened = iterator(kinesis, STREAM, 1, "TRIM_HORIZON")
    for _ in range(3):
        error_of(kinesis, "get_records", ShardIterator=opened)
    service.faults.clear()
    assert read(kinesis, opened)[0] == []


def test_put_records_fails_record_by_record(kinesis: Any, service: Service) -> None:
    service.faults.add("throttle", "PutRecords", shard_id=shard(1), times=None)
    records = [
        {"Data": bytes([index]), "PartitionKey": "k", "ExplicitHashKey": str(2**127 * (index % 2))}
        for index in range(6)
    ]
    answer = kinesis.put_records(**STREAM, Records=records)
    assert answer["FailedRecordCount"] == 3
    assert [each.get("ErrorCode") for each in answer["Records"]] == [
        None,
        "ProvisionedThroughputExceededException",
    ] * 3
    assert held(kinesis) == [b"\0", b"\2", b"\4"]
    service.faults.clear()
    service.faults.add("throttle", "PutRecords", times=2)
    answer = kinesis.put_records(**STREAM, Records=records)
    assert ["ErrorCode" in each for each in answer["Records"]] == [True] * 2 + [False] * 4


def test_an_internal_failure_is_a_500_without_effect(kinesis: Any, service: Service) -> None:
    service.faults.add("internal-failure", "PutRecord")
    with pytest.raises(ClientError) as refused:
        put(kinesis, STREAM, b"1")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert refused.value.response["Error"]["Code"] == "InternalFailure"
    assert held(kinesis) == []


@pytest.mark.parametrize(("kind", "kept"), [("cut", []), ("lose-reply", [b"1"])])
def test_a_connection_is_cut_before_or_after_the_effect(
    kinesis: Any,
    service: Service,
    kind: FaultKind,
    kept: list[bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    service.faults.add(kind, "PutRecord")
    with caplog.at_level("INFO", "shardline"), pytest.raises(ConnectionClosedError):
        put(kinesis, STREAM, b"1")
    assert held(kinesis) == kept
    put(kinesis, STREAM, b"2")
    assert held(kinesis) == [*kept, b"2"]
    said = [record for record in caplog.records if record.name.startswith(("shardline", "aiohttp"))]
    assert ["because of an injected fault" in record.message for record in said] == [True]
    assert not any(record.exc_info for record in caplog.records)


def test_a_call_hangs_until_it_is_released(kinesis: Any, service: Service) -> None:
    fault = service.faults.add("hang", "PutRecord")
    numbers: list[str] = []
    thread = threading.Thread(target=lambda: numbers.extend(put(kinesis, STREAM, b"1")))
    thread.start()
    deadline = time.monotonic() + 30
    while service.faults.pending() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert held(kinesis) == []  # others are served meanwhile
    assert not numbers
    assert not fault.released.is_set()
    service.faults.release()
    thread.join(30)
    assert len(numbers) == 1
    assert held(kinesis) == [b"1"]


def test_stopping_lets_go_of_a_call_that_hangs(kinesis: Any, service: Service) -> None:
    service.faults.add("hang", "PutRecord")
    errors: list[Exception] = []

    def hang() -> None:
        try:
            put(kinesis, STREAM, b"1")
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=hang)
    thread.start()
    deadline = time.monotonic() + 30
    while service.faults.pending() and time.monotonic() < deadline:
        time.sleep(0.005)
    service.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_a_call_that_hangs_times_out_and_takes_effect_later(service: Service) -> None:
    patient = client_of(service)
    patient.create_stream(**STREAM, ShardCount=1)
    hasty = service.client("kinesis", Config(retries={"total_max_attempts": 1}, read_timeout=0.2))
    service.faults.add("hang", "PutRecord")
    with pytest.raises(ReadTimeoutError):
        put(hasty, STREAM, b"1")
    deadline = time.monotonic() + 30
    while service.faults.pending():  # on a busy machine the call arrives after its time-out
        assert time.monotonic() < deadline
        time.sleep(0.005)
    service.faults.release()
    while held(patient) != [b"1"]:
        assert time.monotonic() < deadline


def test_a_stale_listing_shows_the_stream_before_its_last_reshards(
    kinesis: Any, service: Service
) -> None:
    kinesis.split_shard(**STREAM, ShardToSplit=shard(0), NewStartingHashKey="1000")
    kinesis.merge_shards(**STREAM, ShardToMerge=shard(3), AdjacentShardToMerge=shard(1))
    now = kinesis.list_shards(**STREAM)["Shards"]
    service.faults.add("stale-listing", reshards=1)
    before_merge = kinesis.list_shards(**STREAM)["Shards"]
    service.faults.add("stale-listing", "DescribeStream", reshards=2)
    before_split = kinesis.describe_stream(**STREAM)["StreamDescription"]["Shards"]

    def closed(shards: list[dict[str, Any]]) -> list[tuple[str, bool]]:
        return [
            (each["ShardId"], "EndingSequenceNumber" in each["SequenceNumberRange"])
            for each in shards
        ]

    ids = [shard(index) for index in range(5)]
    assert closed(before_split) == list(zip(ids[:2], [False, False], strict=True))
    assert closed(before_merge) == list(zip(ids[:4], [True, False, False, False], strict=True))
    assert closed(now) == list(zip(ids, [True, True, False, True, False], strict=True))
    assert kinesis.list_shards(**STREAM)["Shards"] == now


def test_a_child_is_listed_under_a_parent_that_looks_open(kinesis: Any, service: Service) -> None:
    kinesis.split_shard(**STREAM, ShardToSplit=shard(0), NewStartingHashKey="1000")
    service.faults.add("open-parent", "ListShards")
    shards = kinesis.list_shards(**STREAM)["Shards"]
    assert [each["ShardId"] for each in shards] == [shard(index) for index in range(4)]
    assert all("EndingSequenceNumber" not in each["SequenceNumberRange"] for each in shards)
    shards = kinesis.list_shards(**STREAM)["Shards"]
    assert "EndingSequenceNumber" in shards[0]["SequenceNumberRange"]


@pytest.mark.parametrize("missing", [False, True])
def test_the_end_of_a_shard_is_null_or_missing(
    kinesis: Any, service: Service, missing: bool
) -> None:
    kinesis.split_shard(**STREAM, ShardToSplit=shard(0), NewStartingHashKey="1000")
    if missing:
        service.faults.add("missing-next-iterator", "GetRecords")
    body = json.dumps({"ShardIterator": iterator(kinesis, STREAM, 0, "TRIM_HORIZON")}).encode()
    request = urllib.request.Request(  # noqa: S310
        service.endpoint_url,
        body,
        {"X-Amz-Target": "Kinesis_20131202.GetRecords"}
        | {"Content-Type": "application/x-amz-json-1.1", **SIGNED},
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        page = json.load(answer)
    assert page.get("NextShardIterator", "missing") == ("missing" if missing else None)
    assert len(page["ChildShards"]) == 2


def test_the_same_seed_gives_the_same_faults() -> None:
    def failures(seed: int) -> list[bool]:
        with Service(seed=seed) as service:
            kinesis = client_of(service)
            service.faults.add("throttle", "ListStreams", times=None, probability=0.5)
            outcomes = []
            for _ in range(20):
                try:
                    kinesis.list_streams()
                except ClientError:
                    outcomes.append(True)
                else:
                    outcomes.append(False)
            return outcomes

    first = failures(1)
    assert 0 < sum(first) < 20
    assert failures(1) == first
    assert failures(2) != first


# --- limits -----------------------------------------------------------------------------------


def test_five_reads_a_second_for_each_shard(kinesis: Any, service: Service) -> None:
    opened = [iterator(kinesis, STREAM, index, "LATEST") for index in (0, 1)]
    service.limits.enabled = True
    for _ in range(5):
        read(kinesis, opened[0])
    code = error_of(kinesis, "get_records", ShardIterator=opened[0])
    assert code == "ProvisionedThroughputExceededException"
    read(kinesis, opened[1])
    service.clock.advance(0.2)
    read(kinesis, opened[0])
    assert error_of(kinesis, "get_records", ShardIterator=opened[0]) == code
    service.clock.advance(60)
    for _ in range(5):  # what was not used is not saved up
        read(kinesis, opened[0])
    assert error_of(kinesis, "get_records", ShardIterator=opened[0]) == code


def test_a_big_read_is_paid_for_afterwards(kinesis: Any, service: Service) -> None:
    records = [{"Data": bytes(2**20), "PartitionKey": "k", "ExplicitHashKey": "0"}] * 6
    kinesis.put_records(**STREAM, Records=records)
    opened = iterator(kinesis, STREAM, 0, "TRIM_HORIZON")
    service.limits.enabled = True
    assert len(read(kinesis, opened)[0]) == 6
    service.clock.advance(1.9)
    code = error_of(kinesis, "get_records", ShardIterator=opened)
    assert code == "ProvisionedThroughputExceededException"
    service.clock.advance(0.2)
    read(kinesis, opened)


@pytest.mark.parametrize(("size", "count", "taken"), [(1, 1200, 1000), (100_000, 15, 10)])
def test_a_shard_takes_a_thousand_records_or_a_mebibyte_a_second(
    kinesis: Any, service: Service, size: int, count: int, taken: int
) -> None:
    service.limits.enabled = True
    record = {"Data": bytes(size), "PartitionKey": "k", "ExplicitHashKey": "0"}
    answers = []
    while count:
        batch = min(count, 400)
        answers += kinesis.put_records(**STREAM, Records=[record] * batch)["Records"]
        count -= batch
    failed = [each for each in answers if "ErrorCode" in each]
    assert len(answers) - len(failed) == taken
    assert {each["ErrorCode"] for each in failed} == {"ProvisionedThroughputExceededException"}
    code = error_of(
        kinesis, "put_record", **STREAM, Data=bytes(size), PartitionKey="k", ExplicitHashKey="0"
    )
    assert code == "ProvisionedThroughputExceededException"
    put(kinesis, STREAM, bytes(size), hash_key=2**127)
    service.clock.advance(1)
    put(kinesis, STREAM, bytes(size))


def test_calls_of_the_account_are_limited(kinesis: Any, service: Service) -> None:
    service.limits.enabled = True
    for _ in range(10):
        kinesis.describe_stream(**STREAM)
    assert error_of(kinesis, "describe_stream", **STREAM) == "LimitExceededException"
    service.clock.advance(1)
    kinesis.describe_stream(**STREAM)
    code = error_of(
        kinesis,
        "update_shard_count",
        **STREAM,
        TargetShardCount=5,
        ScalingType="UNIFORM_SCALING",
    )
    assert code == "LimitExceededException"


# --- the control API --------------------------------------------------------------------------


def test_reads_are_counted_until_somebody_asks(kinesis: Any, service: Service) -> None:
    records = [{"Data": bytes(2**20), "PartitionKey": "k", "ExplicitHashKey": "0"}] * 6
    kinesis.put_records(**STREAM, Records=records)
    opened = iterator(kinesis, STREAM, 0, "TRIM_HORIZON")
    service.limits.enabled = True
    now_ms = service.clock.now_ms()
    read(kinesis, opened)
    error_of(kinesis, "get_records", ShardIterator=opened)
    first, second = control(service, "kinesis/reads", **STREAM)["Shards"][:2]
    assert (first["Answers"], first["Refused"], first["Records"]) == (1, 1, 6)
    assert first["Bytes"] == 6 * (2**20 + 1)
    assert (first["FirstMs"], first["LastMs"]) == (now_ms, now_ms)
    assert first["LimitedMs"] == now_ms, "the first read after which the next one has to wait"
    assert first["FreeMs"] == now_ms + 2001, "six mebibytes, two of which the shard had saved"
    assert (second["Answers"], second["LimitedMs"]) == (0, None)
    assert control(service, "kinesis/reads", **STREAM)["Shards"][0]["Answers"] == 0


def test_another_process_sets_clock_faults_and_limits(kinesis: Any, service: Service) -> None:
    before_ms = service.clock.now_ms()
    assert control(service, "clock/advance", seconds=1.5) == {"now_ms": before_ms + 1500}
    control(service, "faults/add", kind="throttle", operation="ListShards", times=None)
    assert error_of(kinesis, "list_shards", **STREAM) == "LimitExceededException"
    control(service, "faults/clear")
    kinesis.list_shards(**STREAM)
    control(service, "limits", enabled=True)
    assert service.limits.enabled
    control(service, "settings", empty_page_every=3)
    assert service.settings.empty_page_every == 3


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("nothing", {}),
        ("clock/advance", {"seconds": -1}),
        ("clock/advance", {}),
        ("faults/add", {"kind": "meteor"}),
        ("faults/add", {"kind": "throttle", "sharD": 1}),
        ("kinesis/nothing", {}),
    ],
)
def test_bad_control_calls_are_refused_in_one_line(
    service: Service, path: str, request_: dict[str, Any]
) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        control(service, path, **request_)
    assert refused.value.code == 400
    message = json.load(refused.value)["error"]
    assert message
    assert "\n" not in message
