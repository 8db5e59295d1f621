"""What a stream to write to refuses before it is asked for anything."""

from __future__ import annotations

import pytest

from shardline.errors import ConfigurationError
from shardline.services.access import Access
from shardline.services.put.stream import connect_to_put


def test_a_change_stream_takes_no_records() -> None:
    with pytest.raises(ConfigurationError, match="only Kinesis takes records"):
        connect_to_put("dynamodb://users")


def test_an_arn_of_another_region_than_given() -> None:
    arn = "kinesis://arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
    with pytest.raises(ConfigurationError, match="eu-west-1"):
        connect_to_put(arn, Access(region="us-east-1"))
    connect_to_put(arn).close()
