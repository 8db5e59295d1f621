"""Registration of a fan-out consumer, with a service that answers by script."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from shardline.errors import ConfigurationError, ServiceError, StreamNotFound, Throttled
from shardline.services.addresses import parse_address
from shardline.services.fan_out.consumers import StreamConsumers, check_consumer_name

if TYPE_CHECKING:
    from shardline.services.port import StreamDescription

ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
MISSING = StreamNotFound("no such consumer")


class ScriptedCalls:
    """Describes the consumer by the statuses of its script, of which the last one lasts."""

    def __init__(self, *statuses: str | None, refusal: ServiceError | None = None) -> None:
        self.statuses = list(statuses)
        self.refusal = refusal
        self.made: list[str] = []
        self.now = 0.0

    def call(self, operation: str, **_: Any) -> dict[str, Any]:
        self.made.append(operation)
        if operation == "register_stream_consumer" and self.refusal is not None:
            raise self.refusal
        if operation != "describe_stream_consumer":
            return {}
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status is None:
            raise MISSING
        return {
            "ConsumerDescription": {
                "ConsumerName": "me",
                "ConsumerARN": f"{ARN}/consumer/me:1",
                "ConsumerStatus": status,
                "ConsumerCreationTimestamp": datetime(2026, 1, 1, tzinfo=UTC),
            }
        }

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def consumers_on(calls: Any) -> StreamConsumers:
    def describe() -> StreamDescription:
        calls.made.append("describe_stream_summary")
        return None  # type: ignore[return-value] # its ARN is in the address

    address = parse_address(f"kinesis://{ARN}")
    return StreamConsumers(calls, address, describe, calls.sleep, lambda: calls.now)


@pytest.mark.req("F-01")
def test_a_missing_consumer_is_registered_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    calls = ScriptedCalls(None, None, "CREATING", "CREATING", "ACTIVE")
    assert consumers_on(calls).ensure("me")
    assert calls.made.count("register_stream_consumer") == 1
    assert calls.now == 3.0
    assert "costs money" in caplog.text


@pytest.mark.req("F-01")
def test_one_that_is_there_is_neither_registered_nor_said_to_cost_money(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = ScriptedCalls("CREATING", "ACTIVE")
    assert not consumers_on(calls).ensure("me")
    assert calls.made == ["describe_stream_consumer"] * 2
    assert caplog.text == ""


@pytest.mark.req("F-01")
def test_one_that_another_process_registers_meanwhile_is_used() -> None:
    calls = ScriptedCalls(None, "CREATING", "ACTIVE", refusal=ServiceError("in use"))
    assert not consumers_on(calls).ensure("me")


def test_a_refusal_to_register_is_raised() -> None:
    calls = ScriptedCalls(None, refusal=ServiceError("not now"))
    with pytest.raises(ServiceError, match="not now"):
        consumers_on(calls).ensure("me")


def test_the_limit_of_consumers_is_said() -> None:
    calls = ScriptedCalls(None, refusal=Throttled("LimitExceededException"))
    with pytest.raises(ServiceError, match="at most 20 fan-out consumers"):
        consumers_on(calls).ensure("me")


def test_one_that_does_not_become_active_is_given_up() -> None:
    calls = ScriptedCalls("DELETING")
    with pytest.raises(ServiceError, match="is still DELETING"):
        consumers_on(calls).ensure("me")
    assert 120 < calls.now < 125


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "x" * 129])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the name of a fan-out consumer"):
        check_consumer_name(name)


def test_deregistering_what_is_missing_says_so() -> None:
    calls = ScriptedCalls(None)
    assert not consumers_on(calls).deregister("me")
    assert "deregister_stream_consumer" not in calls.made
