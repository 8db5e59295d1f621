"""The changes of tables in their streams: the embedded service beside DynamoDB Local."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.reading import wait_until
from tests.contract.table_cases import number, text
from tests.contract.table_servers import KEY, SERVERS, client, connect, created, refused, table

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["client", "connect", "table"]

pytestmark = pytest.mark.parametrize("server", SERVERS)


def test_a_stream_switched_off_and_on_is_a_new_one(
    server: str, client: Any, connect: Callable[[str], Any], table: str
) -> None:
    streams = connect("dynamodbstreams")
    on = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    refused(
        server,
        "Table already has an enabled stream",
        lambda: client.update_table(TableName=table, StreamSpecification=on),
    )
    first = client.describe_table(TableName=table)["Table"]["LatestStreamArn"]
    client.put_item(TableName=table, Item=KEY)
    client.update_table(TableName=table, StreamSpecification={"StreamEnabled": False})
    wait_until(lambda: status_of(streams, first) == "DISABLED", "the stream is off")
    refused(
        server,
        "Table has no stream to disable",
        lambda: client.update_table(TableName=table, StreamSpecification={"StreamEnabled": False}),
    )
    client.put_item(TableName=table, Item={"id": text("while it was off")})
    client.update_table(TableName=table, StreamSpecification=on)
    described = client.describe_table(TableName=table)["Table"]
    assert described["LatestStreamArn"] != first
    assert described["StreamSpecification"] == on
    client.put_item(TableName=table, Item={"id": text("after")})
    wait_until(
        lambda: len(changes_of(streams, described["LatestStreamArn"])) == 1, "the change is there"
    )
    [change] = changes_of(streams, described["LatestStreamArn"])
    assert change["dynamodb"]["Keys"] == {"id": text("after")}
    assert "NewImage" not in change["dynamodb"]
    assert [c["dynamodb"]["Keys"] for c in changes_of(streams, first)] == [KEY]


@pytest.mark.req("C-02", "C-08")
@pytest.mark.parametrize(
    ("view_type", "images"),
    [
        ("KEYS_ONLY", set()),
        ("NEW_IMAGE", {"NewImage"}),
        ("OLD_IMAGE", {"OldImage"}),
        ("NEW_AND_OLD_IMAGES", {"NewImage", "OldImage"}),
    ],
)
def test_every_change_is_in_the_stream_with_the_images_of_its_view(
    client: Any, connect: Callable[[str], Any], view_type: str, images: set[str]
) -> None:
    streams = connect("dynamodbstreams")
    one, two = {**KEY, "v": number(1)}, {**KEY, "v": number(2)}
    with created(client, view_type, id="S") as table:
        client.put_item(TableName=table, Item=one)
        client.put_item(TableName=table, Item={**KEY, "v": number("1.0")})  # changes nothing
        client.update_item(TableName=table, Key=KEY)  # nor does this
        client.update_item(
            TableName=table,
            Key=KEY,
            UpdateExpression="SET v = :two",
            ExpressionAttributeValues={":two": number(2)},
        )
        client.delete_item(TableName=table, Key={"id": text("not there")})
        client.delete_item(TableName=table, Key=KEY)
        arn = client.describe_table(TableName=table)["Table"]["LatestStreamArn"]
        wait_until(lambda: len(changes_of(streams, arn)) >= 3, "the changes are there")
        changes = changes_of(streams, arn)
    expected: list[tuple[str, dict[str, Any]]] = [
        ("INSERT", {"NewImage": one}),
        ("MODIFY", {"OldImage": one, "NewImage": two}),
        ("REMOVE", {"OldImage": two}),
    ]
    for change, (name, both) in zip(changes, expected, strict=True):
        assert change["eventName"] == name
        assert change["dynamodb"]["Keys"] == KEY
        shown = {n: v for n, v in change["dynamodb"].items() if n.endswith("Image")}
        assert shown == {n: v for n, v in both.items() if n in images}
        assert change["dynamodb"]["StreamViewType"] == view_type
        assert "userIdentity" not in change


def test_the_stream_of_a_deleted_table_can_still_be_read(
    client: Any, connect: Callable[[str], Any]
) -> None:
    streams = connect("dynamodbstreams")
    with created(client, id="S") as table:
        client.put_item(TableName=table, Item=KEY)
        arn = client.describe_table(TableName=table)["Table"]["LatestStreamArn"]
    wait_until(lambda: status_of(streams, arn) == "DISABLED", "the stream is off")
    assert [change["dynamodb"]["Keys"] for change in changes_of(streams, arn)] == [KEY]


def status_of(streams: Any, arn: str) -> str:
    description: dict[str, str] = streams.describe_stream(StreamArn=arn)["StreamDescription"]
    return description["StreamStatus"]


def changes_of(streams: Any, arn: str) -> list[dict[str, Any]]:
    """Read everything that is in the shards of a stream now."""
    found: list[dict[str, Any]] = []
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for _ in range(4):
            page = streams.get_records(ShardIterator=iterator)
            found += page["Records"]
            iterator = page.get("NextShardIterator")
            if iterator is None:
                break
    return found
