"""Reaching a service in another role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.services.access import Access
from shardline.services.connection import connect
from tests.contract.reading import wait_until

if TYPE_CHECKING:
    import pytest

    from shardline.local import Service
    from tests.servers import Endpoint


def test_a_role_is_assumed_at_the_token_service(
    ministack: Endpoint, shardline_local: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", ministack.endpoint_url)
    shardline_local.create_stream("in-a-role")
    service = connect(
        "kinesis://in-a-role",
        Access(
            endpoint_url=shardline_local.endpoint_url,
            role_arn="arn:aws:iam::000000000000:role/reader",
        ),
    )
    wait_until(lambda: service.describe().active, "the stream")
    signed: list[str] = []
    client = service._calls._client  # type: ignore[attr-defined]
    client.meta.events.register(
        "before-send.kinesis.*",
        lambda request, **_: signed.append(request.headers["Authorization"].decode()),
    )
    assert len(service.list_shards()) == 1
    # Keys of a role start with ASIA; the environment's are "test".
    assert "Credential=ASIA" in signed[0]
