"""Tables on a server, and what the suites of tables have in common."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.contract.table_cases import Message, number, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SERVERS = ["shardline", "dynamodb_local"]
KEY = {"id": text("a")}


@pytest.fixture
def connect(server: str, request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """Return what makes a client that checks nothing by itself, so that the server must."""
    name = "shardline_tables" if server == "shardline" else server
    url = request.getfixturevalue(name).endpoint_url
    config = Config(parameter_validation=False, retries={"total_max_attempts": 1})
    return lambda service: boto3.client(service, endpoint_url=url, config=config)


@pytest.fixture
def client(connect: Callable[[str], Any]) -> Iterator[Any]:
    with_tables = connect("dynamodb")
    yield with_tables
    with_tables.close()


@pytest.fixture
def table(client: Any) -> Iterator[str]:
    """A table with the hash key `id` and a stream of both images."""
    with created(client, id="S") as name:
        yield name


@pytest.fixture
def sorted_table(client: Any) -> Iterator[str]:
    """A table with the hash key `h` and the range key `r`, a number: two times five items."""
    with created(client, h="S", r="N") as name:
        for hash_key in ("a", "b"):
            for range_key in (3, 1, 2, 10, -1):
                item = {"h": text(hash_key), "r": number(range_key), "v": text(f"v{range_key}")}
                client.put_item(TableName=name, Item=item)
        yield name


class created:  # noqa: N801 - used as a function
    """Creates a table with these keys, and deletes it afterwards."""

    def __init__(self, client: Any, view_type: str = "NEW_AND_OLD_IMAGES", **keys: str) -> None:
        self.client, self.name = client, f"tables-{uuid.uuid4().hex[:12]}"
        client.create_table(
            TableName=self.name,
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": kind} for name, kind in keys.items()
            ],
            KeySchema=[
                {"AttributeName": name, "KeyType": kind}
                for name, kind in zip(keys, ("HASH", "RANGE"), strict=False)
            ],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": view_type},
        )

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *exception: object) -> None:
        self.client.delete_table(TableName=self.name)


def refused(
    server: str,
    message: str | Message,
    act: Callable[..., Any],
    code: str = "ValidationException",
    **given: Any,
) -> Any:
    """Check that a call is refused in these words; return the whole error answer."""
    with pytest.raises(ClientError) as failed:
        act(**given)
    error: dict[str, Any] = failed.value.response["Error"]
    words = message.of(server) if isinstance(message, Message) else message
    assert (error["Code"], error["Message"]) == (code, words)
    return failed.value.response


def answer_of(response: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in response.items() if name != "ResponseMetadata"}
