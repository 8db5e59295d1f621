"""Connecting: every missing or wrong thing is one line that says what to do."""

from __future__ import annotations

import os
from typing import Any

import pytest

from shardline.errors import ConfigurationError
from shardline.local import Service
from shardline.services.access import Access, make_client
from shardline.services.connection import connect


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which no credentials, region or endpoint can be found."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


@pytest.mark.usefixtures("bare_environment")
@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({}, "pass region="),
        ({"region": "eu-west-1"}, "set AWS_ACCESS_KEY_ID"),
        ({"region": "eu-west-1", "profile": "nobody"}, "aws configure list-profiles"),
        ({"region": "eu-west-1", "endpoint_url": "127.0.0.1:4567"}, "write http://127.0.0.1:4567"),
        ({"region": "eu-west-1", "role_arn": "arn:aws:iam::123456789012:role/x"}, "credentials"),
    ],
)
def test_what_is_missing_is_said_in_one_line(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        connect("kinesis://orders", Access(**options)).list_shards()
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_region_that_contradicts_the_arn_is_refused() -> None:
    arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
    with pytest.raises(ConfigurationError, match="eu-west-1"):
        connect(f"kinesis://{arn}", Access(region="us-east-1"))


@pytest.mark.usefixtures("bare_environment")
def test_a_server_on_this_machine_needs_neither_credentials_nor_region() -> None:
    with Service() as local:  # not strict: what a client is given is asked, in a single listing
        local.create_stream("orders", 2)
        service = connect("kinesis://orders", Access(endpoint_url=local.endpoint_url))
        assert len(service.list_shards()) == 2
        service.close()


@pytest.mark.usefixtures("bare_environment")
def test_the_endpoint_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Service() as local:  # not strict: what a client is given is asked, in a single listing
        local.create_stream("orders", 2)
        monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", local.endpoint_url)
        service = connect("kinesis://orders")
        assert len(service.list_shards()) == 2
        service.close()


def test_only_one_layer_retries() -> None:
    client = make_client("kinesis", Access(region="eu-west-1"))
    assert client.meta.config.retries["total_max_attempts"] == 1
