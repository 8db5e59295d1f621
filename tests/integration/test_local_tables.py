"""Tables of the embedded service in a file: as they were, whatever ended the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardline.local import Service

if TYPE_CHECKING:
    from pathlib import Path


def test_tables_items_and_streams_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "service.db"
    with Service(file=file) as service:
        client = service.client("dynamodb")
        client.create_table(
            TableName="users",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        client.update_time_to_live(
            TableName="users",
            TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"},
        )
        put(client, "a", v={"B": b"\x00\xff"})
        put(client, "b")
        [shard] = shards_of(service)
        service.tables.split("users", shard["ShardId"])
        put(client, "a", v={"N": "2"})
        client.delete_item(TableName="users", Key={"id": {"S": "b"}})
        expires = int(service.clock.now_ms() / 1000) + 60
        put(client, "c", expires={"N": str(expires)})
        before = state_of(service)
    with Service(file=file) as service:
        assert state_of(service) == before
        client = service.client("dynamodb")
        client.put_item(
            TableName="users",
            Item={"id": {"S": "d"}},
            ConditionExpression="attribute_not_exists(id)",
        )
        service.clock.advance(61)
        after = state_of(service)
        assert {item["id"]["S"] for item in after["items"]} == {"a", "d"}
        assert len(after["changes"]) == len(before["changes"]) + 2
    with Service(file=file) as service:
        assert state_of(service) == after


def put(client: Any, name: str, **others: Any) -> None:
    client.put_item(TableName="users", Item={"id": {"S": name}, **others})


def shards_of(service: Service) -> list[dict[str, Any]]:
    streams = service.client("dynamodbstreams")
    [stream] = streams.list_streams(TableName="users")["Streams"]
    described = streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]
    shards: list[dict[str, Any]] = described["Shards"]
    return shards


def state_of(service: Service) -> dict[str, Any]:
    """Return everything that clients can see of the table and its stream."""
    client, streams = service.client("dynamodb"), service.client("dynamodbstreams")
    items = client.scan(TableName="users")["Items"]
    table = client.describe_table(TableName="users")["Table"]
    changes: list[Any] = []
    for shard in shards_of(service):
        iterator = streams.get_shard_iterator(
            StreamArn=table["LatestStreamArn"],
            ShardId=shard["ShardId"],
            ShardIteratorType="TRIM_HORIZON",
        )["ShardIterator"]
        changes += streams.get_records(ShardIterator=iterator)["Records"]
    return {"items": items, "table": table, "shards": shards_of(service), "changes": changes}
