"""Dead letters in a table of DynamoDB."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import boto3
import pytest

from shardline.consumer.dead_letters import open_dead_letters
from shardline.services.access import Access
from tests.unit.consumer.test_dead_letters import batch

if TYPE_CHECKING:
    from tests.servers import Endpoint


@pytest.mark.case("R-01")
def test_a_table_holds_each_record_once(
    dynamodb_local: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = dynamodb_local.endpoint_url
    client = boto3.client("dynamodb", endpoint_url=url)
    client.create_table(
        TableName="letters",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
    place = open_dead_letters("dynamodb://letters", Access(endpoint_url="http://127.0.0.1:1"))
    place.write(batch([1, 2]), "odd")
    place.write(batch([2, 3]), "odd again")
    items = client.scan(TableName="letters")["Items"]
    kept = {item["id"]["S"].split("/")[1]: item["reason"]["S"] for item in items}
    assert kept == {"1": "odd", "2": "odd again", "3": "odd again"}
    assert json.loads(items[0]["letter"]["S"])["record"]["stream"] == "orders"
