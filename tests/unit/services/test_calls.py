"""Retries: for how long, how often they are logged, and when to give up."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from botocore import exceptions as aws

from shardline.errors import (
    ConfigurationError,
    InvalidPosition,
    IteratorExpired,
    PositionTrimmed,
    ServiceError,
    ServiceUnreachable,
    ShardlineError,
    StreamNotFound,
    Throttled,
)
from shardline.services.calls import Calls, Patience
from shardline.services.wire.handler import IncompleteAnswer

URL = "http://127.0.0.1:4567"


@dataclass
class Scripted:
    """A client that answers by a script, with the clock and the dice that go with it."""

    script: list[Exception | dict[str, Any]]
    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    meta: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(endpoint_url=URL))

    def get_shard_iterator(self, ShardId: str) -> dict[str, Any]:  # noqa: N803 - botocore's name
        assert ShardId
        return self.get_records()

    def get_records(self) -> dict[str, Any]:
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        return step

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def calls(self, chance: float = 1.0, **options: Any) -> Calls:
        patience = Patience(
            sleep=self.sleep, clock=lambda: self.now, chance=lambda: chance, **options
        )
        return Calls(self, "kinesis://orders", patience)


def refusal(code: str, status: int = 400) -> aws.ClientError:
    said = {"Error": {"Code": code, "Message": "two\nlines."}}
    return aws.ClientError(said | {"ResponseMetadata": {"HTTPStatusCode": status}}, "GetRecords")


NOBODY = aws.EndpointConnectionError(endpoint_url=URL)
PASSING = [
    refusal("ProvisionedThroughputExceededException"),
    refusal("LimitExceededException"),
    refusal("ThrottlingException"),
    refusal("TooMany", 429),
    refusal("InternalFailure", 500),
    refusal("ServiceUnavailable", 503),
    NOBODY,
    aws.ConnectTimeoutError(endpoint_url=URL),
    aws.ReadTimeoutError(endpoint_url=URL),
    aws.ConnectionClosedError(endpoint_url=URL),
    aws.HTTPClientError(error="cut"),
    msgspec.DecodeError("Input data was truncated"),
    IncompleteAnswer(error="5 of 9 bytes arrived"),
]


@pytest.mark.case("R-11")
@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: repr(fault)[:40])
def test_what_passes_is_waited_out_and_said(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    client = Scripted([fault, fault, {"Records": []}])
    with caplog.at_level(logging.WARNING):
        assert client.calls(chance=0.5).call("get_records") == {"Records": []}
    assert client.slept == [0.1, 0.2]
    [line] = caplog.records
    assert "kinesis://orders" in line.message
    assert "trying again in 0.1 s" in line.message


def test_a_storm_of_refusals_is_one_line_a_minute_and_shard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Scripted([refusal("ThrottlingException")] * 1_000 + [{}])
    calls = client.calls(total_seconds=10_000, longest_delay_seconds=0.2)
    with caplog.at_level(logging.WARNING):
        calls.call("get_shard_iterator", ShardId="shard-1")
    assert client.now == pytest.approx(200)
    assert len(caplog.records) == 4
    assert all("times in the minute before" in line.message for line in caplog.records[1:])
    client.script[:] = [refusal("ThrottlingException"), {}]
    with caplog.at_level(logging.WARNING):
        calls.call("get_shard_iterator", ShardId="shard-2")
    assert len(caplog.records) == 5


def test_different_failures_of_a_shard_share_its_line_of_the_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storm = [fault for fault in PASSING if fault is not NOBODY] * 20
    client = Scripted([*storm, {}])
    calls = client.calls(total_seconds=10_000, longest_delay_seconds=0.1)
    with caplog.at_level(logging.WARNING):
        calls.call("get_shard_iterator", ShardId="shard-1")
        client.script[:] = [*storm, {}]
        calls.call("get_records")
        calls.call("get_records")
    assert client.now < 60
    assert len(caplog.records) == 2


def test_a_caller_that_keeps_to_its_quota_hears_of_throttling_at_once() -> None:
    client = Scripted([refusal("ProvisionedThroughputExceededException"), {}])
    with pytest.raises(Throttled, match="GetRecords throttled"):
        client.calls().call("get_records", retry_throttled=False)
    assert client.slept == []
    client = Scripted([refusal("InternalFailure", 500), {}])
    client.calls().call("get_records", retry_throttled=False)
    assert len(client.slept) == 1


@pytest.mark.case("R-11")
def test_waits_double_up_to_the_longest_and_are_jittered_from_nothing_to_full() -> None:
    client = Scripted([refusal("ThrottlingException")] * 8 + [{}])
    client.calls(longest_delay_seconds=2).call("get_records")
    assert client.slept == [0.2, 0.4, 0.8, 1.6, 2, 2, 2, 2]
    client = Scripted([refusal("ThrottlingException"), {}])
    client.calls(chance=0).call("get_records")
    assert client.slept == [0]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (refusal("ProvisionedThroughputExceededException"), Throttled),
        (refusal("InternalFailure", 500), ServiceUnreachable),
        (aws.ReadTimeoutError(endpoint_url=URL), ServiceUnreachable),
    ],
)
def test_it_gives_up_after_the_total_time(fault: Exception, kind: type[ServiceError]) -> None:
    client = Scripted([fault])
    with pytest.raises(kind, match="gave up after 2") as caught:
        client.calls(total_seconds=30).call("get_records")
    assert 20 < client.now <= 30
    assert "\n" not in str(caught.value)


def test_an_endpoint_where_nothing_ever_answered_is_given_up_soon() -> None:
    client = Scripted([NOBODY])
    with pytest.raises(ServiceUnreachable, match="nothing answers at http"):
        client.calls().call("get_records")
    assert client.now <= 5


def test_an_endpoint_that_has_answered_before_is_waited_for() -> None:
    client = Scripted([{}, NOBODY])
    calls = client.calls()
    calls.call("get_records")
    with pytest.raises(ServiceUnreachable):
        calls.call("get_records")
    assert client.now > 100


TLS = aws.SSLError(endpoint_url=URL, error="self\nsigned")


@pytest.mark.case("X-23")
@pytest.mark.parametrize("fault", [TLS, aws.ProxyConnectionError(proxy_url=URL, error="cut")])
def test_a_failure_of_tls_or_proxy_is_waited_out_where_the_service_was_reached_before(
    fault: Exception,
) -> None:
    client = Scripted([{}, *[fault] * 10, {}])
    calls = client.calls()
    calls.call("get_records")
    calls.call("get_records")
    assert len(client.slept) == 10


def test_a_certificate_that_never_worked_is_said_soon_in_one_line() -> None:
    client = Scripted([TLS])
    with pytest.raises(ServiceUnreachable, match=r"self signed.*check proxy and certificates"):
        client.calls().call("get_records")
    assert client.now <= 5


@pytest.mark.parametrize(
    ("fault", "kind", "advice"),
    [
        (refusal("ResourceNotFoundException"), StreamNotFound, "check the name, region"),
        (refusal("ExpiredIteratorException"), IteratorExpired, "refused"),
        (refusal("TrimmedDataAccessException"), PositionTrimmed, "refused"),
        (refusal("InvalidArgumentException"), InvalidPosition, "two lines"),
        (refusal("AccessDeniedException"), ConfigurationError, "IAM policy"),
        (refusal("UnrecognizedClientException"), ConfigurationError, "credentials"),
        (refusal("KMSDisabledException"), ServiceError, "KMSDisabledException"),
        (aws.NoCredentialsError(), ConfigurationError, "set AWS_ACCESS_KEY_ID"),
        (aws.NoRegionError(), ConfigurationError, "pass region="),
    ],
)
def test_what_does_not_pass_is_said_at_once_in_one_line(
    fault: Exception, kind: type[ShardlineError], advice: str
) -> None:
    client = Scripted([fault])
    with pytest.raises(kind, match="kinesis://orders") as caught:
        client.calls().call("get_records")
    assert type(caught.value) is kind
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)
    assert client.slept == []
