"""One suite for tables, run against the embedded service and against DynamoDB Local."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.table_cases import (
    CONDITION_ERRORS,
    CONDITIONS,
    STORED,
    UPDATE_ERRORS,
    UPDATED_ITEM,
    UPDATES,
    VALUE_ERRORS,
    VALUES,
    Message,
    number,
    text,
)
from tests.contract.table_servers import (
    KEY,
    SERVERS,
    answer_of,
    client,
    connect,
    refused,
    sorted_table,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["client", "connect", "sorted_table", "table"]

pytestmark = pytest.mark.parametrize("server", SERVERS)
NO_TABLE = "Cannot do operations on a non-existent table"


# --- values and expressions -------------------------------------------------------------------


@pytest.mark.parametrize(("written", "read"), VALUES)
def test_values_come_back_in_one_form(
    client: Any, table: str, written: dict[str, Any], read: dict[str, Any]
) -> None:
    client.put_item(TableName=table, Item={**KEY, "v": written})
    assert client.get_item(TableName=table, Key=KEY)["Item"] == {**KEY, "v": read}


@pytest.mark.parametrize(("value", "message"), VALUE_ERRORS)
def test_values_that_cannot_be_stored_are_refused(
    server: str, client: Any, table: str, value: dict[str, Any], message: Message
) -> None:
    refused(server, message, client.put_item, TableName=table, Item={**KEY, "v": value})
    assert "Item" not in client.get_item(TableName=table, Key=KEY)


def test_conditions(client: Any, table: str) -> None:
    client.put_item(TableName=table, Item={**KEY, **STORED})
    wrong = []
    for expression, values, expected in CONDITIONS:
        given = {"ExpressionAttributeValues": values} if values else {}
        found = client.scan(TableName=table, FilterExpression=expression, **given)["Count"]
        if bool(found) != expected:
            wrong.append(expression)
    assert wrong == []


def test_conditions_that_are_refused(server: str, client: Any, table: str) -> None:
    for expression, values, message in CONDITION_ERRORS:
        given: dict[str, Any] = {"ExpressionAttributeValues": values} if values else {}
        for label, act in (("Filter", client.scan), ("Condition", client.put_item)):
            item = {"Item": {**KEY, **STORED}} if label == "Condition" else {}
            given_here = {f"{label}Expression": expression, **given, **item}
            refused(
                server,
                f"Invalid {label}Expression: {message}",
                act,
                TableName=table,
                **given_here,
            )


def test_updates(client: Any, table: str) -> None:
    for expression, values, changed in UPDATES:
        client.put_item(TableName=table, Item={**KEY, **UPDATED_ITEM})
        given = {"ExpressionAttributeValues": values} if values else {}
        after = client.update_item(
            TableName=table, Key=KEY, UpdateExpression=expression, ReturnValues="ALL_NEW", **given
        )["Attributes"]
        expected = {**KEY, **UPDATED_ITEM, **changed}
        assert after == {n: v for n, v in expected.items() if v is not None}, expression
        assert client.get_item(TableName=table, Key=KEY)["Item"] == after


def test_updates_that_are_refused_change_nothing(server: str, client: Any, table: str) -> None:
    item = {**KEY, **UPDATED_ITEM}
    client.put_item(TableName=table, Item=item)
    for expression, values, message in UPDATE_ERRORS:
        given: dict[str, Any] = {"UpdateExpression": expression}
        if values:
            given["ExpressionAttributeValues"] = values
        refused(server, message, client.update_item, TableName=table, Key=KEY, **given)
    assert client.get_item(TableName=table, Key=KEY)["Item"] == item


def test_names_and_values_of_expressions(server: str, client: Any, table: str) -> None:
    client.put_item(TableName=table, Item={**KEY, **STORED, "name": text("n")})

    def get(**given: Any) -> Any:
        return client.get_item(TableName=table, Key=KEY, **given)

    projected = get(
        ProjectionExpression="l[1], #m.k, nope, #n",
        ExpressionAttributeNames={"#n": "name", "#m": "m"},
    )["Item"]
    assert projected == {
        "l": {"L": [number(2)]},
        "m": {"M": {"k": text("v")}},
        "name": text("n"),
    }
    for message, given in (
        (
            "Invalid ProjectionExpression: Two document paths overlap with each other; must remove "
            "or rewrite one of these paths; path one: [m], path two: [m, k]",
            {"ProjectionExpression": "m, m.k"},
        ),
        (
            'Invalid ProjectionExpression: Syntax error; token: ",", near: ",,k"',
            {"ProjectionExpression": "m,,k"},
        ),
        (
            "Invalid ProjectionExpression: The expression can not be empty;",
            {"ProjectionExpression": ""},
        ),
        (
            "Value provided in ExpressionAttributeNames unused in expressions: keys: {#x}",
            {"ProjectionExpression": "m", "ExpressionAttributeNames": {"#x": "y"}},
        ),
        (
            "ExpressionAttributeNames can only be specified when using expressions",
            {"ExpressionAttributeNames": {"#x": "y"}},
        ),
        (
            'ExpressionAttributeNames contains invalid key: Syntax error; key: "x"',
            {"ProjectionExpression": "m", "ExpressionAttributeNames": {"x": "y"}},
        ),
    ):
        refused(server, message, get, **given)
    for message, values in (
        (
            "Value provided in ExpressionAttributeValues unused in expressions: keys: {:b}",
            {":a": text("x"), ":b": text("y")},
        ),
        (
            'ExpressionAttributeValues contains invalid key: Syntax error; key: "a"',
            {"a": text("x")},
        ),
        ("ExpressionAttributeValues must not be empty", {}),
        (
            "ExpressionAttributeValues contains invalid value: One or more parameter values were "
            "invalid: An string set  may not be empty for key :a",
            {":a": {"SS": []}},
        ),
    ):
        refused(
            server,
            message,
            client.scan,
            TableName=table,
            FilterExpression="s = :a",
            ExpressionAttributeValues=values,
        )


# --- items ------------------------------------------------------------------------------------


def test_return_values(server: str, client: Any, table: str) -> None:
    first, second = {**KEY, "v": number(1)}, {**KEY, "v": number(2), "w": number(3)}
    put, delete, update = client.put_item, client.delete_item, client.update_item
    assert answer_of(put(TableName=table, Item=first, ReturnValues="ALL_OLD")) == {}
    assert put(TableName=table, Item=second, ReturnValues="ALL_OLD")["Attributes"] == first
    returned = {
        returns: update(
            TableName=table,
            Key=KEY,
            UpdateExpression="ADD v :one REMOVE w SET x = :one",
            ExpressionAttributeValues={":one": number(1)},
            ReturnValues=returns,
        ).get("Attributes")
        for returns in ("UPDATED_NEW", "UPDATED_OLD", "ALL_NEW", "ALL_OLD", "NONE")
    }
    assert returned == {
        "UPDATED_NEW": {"v": number(3), "x": number(1)},
        "UPDATED_OLD": {"v": number(3), "x": number(1)},
        "ALL_NEW": {**KEY, "v": number(5), "x": number(1)},
        "ALL_OLD": {**KEY, "v": number(5), "x": number(1)},
        "NONE": None,
    }
    last = {**KEY, "v": number(7), "x": number(1)}
    assert delete(TableName=table, Key=KEY, ReturnValues="ALL_OLD")["Attributes"] == last
    assert "Attributes" not in delete(TableName=table, Key=KEY, ReturnValues="ALL_OLD")
    for act in (
        lambda: put(TableName=table, Item=first, ReturnValues="ALL_NEW"),
        lambda: delete(TableName=table, Key=KEY, ReturnValues="UPDATED_NEW"),
    ):
        refused(server, "Return values set to invalid value", act)


def test_an_update_of_a_missing_item_makes_it(client: Any, table: str) -> None:
    for name, given in (("a", {}), ("b", {"UpdateExpression": "REMOVE q"})):
        key = {"id": text(name)}
        made = client.update_item(TableName=table, Key=key, ReturnValues="ALL_NEW", **given)
        assert made["Attributes"] == key
        assert client.get_item(TableName=table, Key=key)["Item"] == key


def test_a_condition_that_fails_changes_nothing(server: str, client: Any, table: str) -> None:
    item = {**KEY, "v": number(1)}
    client.put_item(TableName=table, Item=item)
    for act, given in (
        (client.put_item, {"Item": {**KEY, "v": number(2)}}),
        (client.update_item, {"Key": KEY}),
        (client.delete_item, {"Key": KEY}),
    ):
        error = refused(
            server,
            "The conditional request failed",
            act,
            "ConditionalCheckFailedException",
            TableName=table,
            ConditionExpression="attribute_not_exists(id)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **given,
        )
        assert error["Item"] == item
    assert client.get_item(TableName=table, Key=KEY)["Item"] == item


def test_keys_that_do_not_fit_the_table(server: str, client: Any, table: str) -> None:
    schema = "The provided key element does not match the schema"
    missing = "One of the required keys was not given a value"
    mismatch = "One or more parameter values were invalid: Type mismatch for key"
    empty = (
        "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
        "contain an empty string value. Key: id"
    )
    for message, key in (
        (Message(schema, missing), {"x": text("a")}),
        (
            Message(schema, "The number of conditions on the keys is invalid"),
            {**KEY, "x": text("")},
        ),
        (Message(schema, mismatch), {"id": number(1)}),
        (Message(empty), {"id": text("")}),
    ):
        for act in (client.get_item, client.delete_item, client.update_item):
            refused(server, message, act, TableName=table, Key=key)
    lacks = "One or more parameter values were invalid: Missing the key id in the item"
    for message, item in (
        (Message(lacks, missing), {"x": text("a")}),
        (Message(f"{mismatch} id expected: S actual: N", mismatch), {"id": number(1)}),
        (Message(empty), {"id": text("")}),
    ):
        refused(server, message, client.put_item, TableName=table, Item=item)


@pytest.mark.req("K-06")
@pytest.mark.case("W-02")
def test_of_racing_conditional_writes_one_wins(
    connect: Callable[[str], Any], client: Any, table: str
) -> None:
    threads, rounds = 8, 400
    barrier = threading.Barrier(threads)

    def race(me: int) -> set[int]:
        """Take part in every round; return the rounds that were won."""
        mine, won = connect("dynamodb"), set()
        for turn in range(rounds):
            barrier.wait(60)
            try:
                mine.put_item(
                    TableName=table,
                    Item={"id": text(f"{turn}"), "by": number(me)},
                    ConditionExpression="attribute_not_exists(id)",
                )
                won.add(turn)
            except mine.exceptions.ConditionalCheckFailedException:
                continue
        mine.close()
        return won

    with ThreadPoolExecutor(threads) as pool:
        won = list(pool.map(race, range(threads), timeout=240))
    stored = client.get_paginator("scan").paginate(TableName=table)
    winners = {int(i["id"]["S"]): int(i["by"]["N"]) for page in stored for i in page["Items"]}
    assert sum(map(len, won)) == rounds
    assert winners == {turn: me for me, turns in enumerate(won) for turn in turns}


# --- tables -----------------------------------------------------------------------------------


def test_a_table_is_described_and_listed(client: Any, sorted_table: str) -> None:
    described = client.describe_table(TableName=sorted_table)["Table"]
    assert described["TableName"] == sorted_table
    assert described["TableStatus"] == "ACTIVE"
    assert [key["AttributeName"] for key in described["KeySchema"]] == ["h", "r"]
    assert [key["KeyType"] for key in described["KeySchema"]] == ["HASH", "RANGE"]
    types = {a["AttributeName"]: a["AttributeType"] for a in described["AttributeDefinitions"]}
    assert types == {"h": "S", "r": "N"}
    assert described["ItemCount"] == 10
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert described["StreamSpecification"]["StreamViewType"] == "NEW_AND_OLD_IMAGES"
    assert described["LatestStreamArn"].endswith(described["LatestStreamLabel"])
    assert sorted_table in client.list_tables()["TableNames"]
    page = client.list_tables(Limit=1, ExclusiveStartTableName=sorted_table[:-1])
    assert page["TableNames"] == [sorted_table]


def test_tables_that_are_refused(server: str, client: Any, table: str) -> None:
    keys = {
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    }
    cheap = {"BillingMode": "PAY_PER_REQUEST"}
    view = "Invalid StreamViewType: Stream "
    for message, given in (
        ("No provisioned throughput specified for the table", keys),
        (
            f"{view}StreamEnabled was false but a StreamViewType was present.",
            {
                **keys,
                **cheap,
                "StreamSpecification": {"StreamEnabled": False, "StreamViewType": "NEW_IMAGE"},
            },
        ),
        (
            f"{view}ViewType must not be null or empty when enabling streams.",
            {**keys, **cheap, "StreamSpecification": {"StreamEnabled": True}},
        ),
        (
            Message(
                "One or more parameter values were invalid: Number of attributes in KeySchema does "
                "not exactly match number of attributes defined in AttributeDefinitions",
                "The number of attributes in key schema must match the number of attributes "
                "defined in attribute definitions.",
            ),
            {
                **keys,
                **cheap,
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": "S"} for name in ("id", "x")
                ],
            },
        ),
    ):
        refused(server, message, client.create_table, TableName="never", **given)
    refused(
        server,
        "Invalid table/index name.  Table/index names must be between 3 and 255 characters long, "
        "and may contain only the characters a-z, A-Z, 0-9, '_', '-', and '.'",
        lambda: client.create_table(TableName="no", **keys, **cheap),
    )
    refused(
        server,
        Message(f"Table already exists: {table}", "Cannot create preexisting table"),
        lambda: client.create_table(TableName=table, **keys, **cheap),
        "ResourceInUseException",
    )
    refused(server, "Nothing to update", lambda: client.update_table(TableName=table))


def test_a_table_that_does_not_exist(server: str, client: Any) -> None:
    gone = "no-such-table"
    item, key = {"Item": KEY}, {"Key": KEY}
    named = Message(f"Requested resource not found: Table: {gone} not found", NO_TABLE)
    unnamed = Message("Requested resource not found", NO_TABLE)
    off = {"StreamSpecification": {"StreamEnabled": False}}
    ttl = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "x"}}
    query = {"KeyConditionExpression": "id = :a", "ExpressionAttributeValues": {":a": text("a")}}
    for message, act in (
        (named, lambda: client.describe_table(TableName=gone)),
        (named, lambda: client.delete_table(TableName=gone)),
        (named, lambda: client.update_table(TableName=gone, **off)),
        (named, lambda: client.update_time_to_live(TableName=gone, **ttl)),
        (unnamed, lambda: client.get_item(TableName=gone, **key)),
        (unnamed, lambda: client.put_item(TableName=gone, **item)),
        (unnamed, lambda: client.delete_item(TableName=gone, **key)),
        (unnamed, lambda: client.update_item(TableName=gone, **key)),
        (unnamed, lambda: client.scan(TableName=gone)),
        (unnamed, lambda: client.query(TableName=gone, **query)),
        (unnamed, lambda: client.batch_get_item(RequestItems={gone: {"Keys": [KEY]}})),
        (unnamed, lambda: client.batch_write_item(RequestItems={gone: [{"PutRequest": item}]})),
        (
            unnamed,
            lambda: client.transact_write_items(
                TransactItems=[{"Put": {"TableName": gone, **item}}]
            ),
        ),
    ):
        refused(server, message, act, "ResourceNotFoundException")


def test_times_to_live(server: str, client: Any, table: str) -> None:
    def update(enabled: bool, attribute: str = "expires") -> Any:
        wanted = {"Enabled": enabled, "AttributeName": attribute}
        return client.update_time_to_live(TableName=table, TimeToLiveSpecification=wanted)

    def described() -> Any:
        return client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]

    assert described() == {"TimeToLiveStatus": "DISABLED"}
    refused(server, "TimeToLive is already disabled", lambda: update(False))
    assert update(True)["TimeToLiveSpecification"]["Enabled"] is True
    assert described() == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}
    refused(server, "TimeToLive is already enabled", lambda: update(True))
    refused(
        server, "TimeToLive is active on a different AttributeName", lambda: update(True, "other")
    )
