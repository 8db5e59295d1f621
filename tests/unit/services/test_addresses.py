"""Addresses: what is understood, and the one line that comes back otherwise."""

from __future__ import annotations

import pytest

from shardline.errors import ConfigurationError
from shardline.services.addresses import Address, parse_address

KINESIS_ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
TABLE_ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/users"
STREAM_ARN = f"{TABLE_ARN}/stream/2026-11-15T00:00:00.000"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kinesis://orders", Address("kinesis", "orders")),
        ("kinesis://a.b_c-1", Address("kinesis", "a.b_c-1")),
        (f"kinesis://{KINESIS_ARN}", Address("kinesis", "orders", KINESIS_ARN, "eu-west-1")),
        ("dynamodb://users", Address("dynamodb", "users")),
        (f"dynamodb://{TABLE_ARN}", Address("dynamodb", "users", None, "eu-west-1")),
        (f"dynamodb://{STREAM_ARN}", Address("dynamodb", "users", STREAM_ARN, "eu-west-1")),
        (
            "kinesis://arn:aws-us-gov:kinesis:us-gov-west-1:123456789012:stream/orders",
            Address(
                "kinesis",
                "orders",
                "arn:aws-us-gov:kinesis:us-gov-west-1:123456789012:stream/orders",
                "us-gov-west-1",
            ),
        ),
    ],
)
def test_addresses_are_understood(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("orders", "write kinesis://orders or dynamodb://orders"),
        ("", "write kinesis://NAME or dynamodb://NAME"),
        (KINESIS_ARN, f"write kinesis://{KINESIS_ARN}"),
        ("kineses://orders", "write kinesis://orders"),
        ("KINESIS://orders", "write kinesis://orders"),
        ("dynamo://users", "write dynamodb://users"),
        ("s3://orders", "write kinesis://orders or dynamodb://orders"),
        ("kinesis://", "write kinesis://NAME"),
        ("kinesis://orders/", "write kinesis://NAME"),
        ("dynamodb://my table", "write dynamodb://NAME"),
        ("kinesis://arn:aws:kinesis:orders", "write kinesis://arn:aws:kinesis:REGION"),
        ("dynamodb://arn:aws:dynamodb::x", "write dynamodb://arn:aws:dynamodb:REGION"),
        (f"kinesis://{STREAM_ARN}", f"write dynamodb://{STREAM_ARN}"),
    ],
)
def test_a_bad_address_is_answered_with_the_right_form(text: str, advice: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_address(text)
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)
