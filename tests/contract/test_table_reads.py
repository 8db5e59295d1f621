"""Queries, scans, batches and transactions: the embedded service beside DynamoDB Local."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.table_cases import Message, number, text
from tests.contract.table_servers import (
    KEY,
    SERVERS,
    client,
    connect,
    created,
    refused,
    sorted_table,
    table,
)

__all__ = ["client", "connect", "sorted_table", "table"]

pytestmark = pytest.mark.parametrize("server", SERVERS)

A = {":h": text("a")}
SAME_SIZE = "Exclusive Start Key must have same size as table's key schema"


def ranges(answer: dict[str, Any]) -> list[str]:
    return [item["r"]["N"] for item in answer["Items"]]


# --- queries ----------------------------------------------------------------------------------

KEY_CONDITIONS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("h = :h", {}, ["-1", "1", "2", "3", "10"]),
    (":h = h", {}, ["-1", "1", "2", "3", "10"]),
    ("h = :h AND r = :a", {":a": number("2.0")}, ["2"]),
    ("h = :h AND r < :a", {":a": number(2)}, ["-1", "1"]),
    ("h = :h AND r <= :a", {":a": number(2)}, ["-1", "1", "2"]),
    ("(h = :h) AND (r > :a)", {":a": number(2)}, ["3", "10"]),
    ("r >= :a AND h = :h", {":a": number(2)}, ["2", "3", "10"]),
    ("h = :h AND :a < r", {":a": number(3)}, ["10"]),
    ("h = :h AND r BETWEEN :a AND :b", {":a": number(1), ":b": number(3)}, ["1", "2", "3"]),
]

OPERATOR = "Invalid operator used in KeyConditionExpression: "
ONCE = "KeyConditionExpressions must only contain one condition per key"
TYPE = (
    "One or more parameter values were invalid: Condition parameter type does not match schema type"
)
SCALARS = (
    "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
    "Key: h"
)
PREFIX = (
    "Invalid KeyConditionExpression: Incorrect operand type for operator or function; operator or "
    "function: begins_with, operand type: N"
)
KEY_CONDITION_ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("r = :a", {":a": number(1)}, "Query condition missed key schema element"),
    ("h = :h AND v = :a", {**A, ":a": text("x")}, "Query condition missed key schema element"),
    ("h < :h", A, "Query key condition not supported"),
    ("h = :h OR r = :a", {**A, ":a": number(1)}, f"{OPERATOR}OR"),
    ("h = :h AND r <> :a", {**A, ":a": number(1)}, f"{OPERATOR}<>"),
    ("h = :h AND NOT r = :a", {**A, ":a": number(1)}, f"{OPERATOR}NOT"),
    ("h = :h AND r IN (:a)", {**A, ":a": number(1)}, f"{OPERATOR}IN"),
    ("h = :h AND attribute_exists(r)", A, f"{OPERATOR}attribute_exists"),
    ("size(h) = :h", A, "KeyConditionExpressions cannot contain nested operations"),
    (
        "h = :h AND r = :a AND v = :a",
        {**A, ":a": number(1)},
        "Conditions can be of length 1 or 2 only",
    ),
    ("h = :h AND h = :h", A, ONCE),
    ("h = :h AND r > :a AND r < :b", {**A, ":a": number(1), ":b": number(3)}, ONCE),
    ("h = :a", {":a": number(1)}, TYPE),
    ("h = :h AND r = :a", {**A, ":a": text("x")}, TYPE),
    ("h.x = :h", A, SCALARS),
    ("h = :h AND", A, 'Invalid KeyConditionExpression: Syntax error; token: "<EOF>", near: "AND"'),
    ("h = :h AND begins_with(r, :a)", {**A, ":a": number(1)}, PREFIX),
]


def test_key_conditions(client: Any, sorted_table: str) -> None:
    for expression, values, expected in KEY_CONDITIONS:
        answer = client.query(
            TableName=sorted_table,
            KeyConditionExpression=expression,
            ExpressionAttributeValues={**A, **values},
        )
        assert ranges(answer) == expected, expression
        assert answer["Count"] == answer["ScannedCount"] == len(expected)
        assert "LastEvaluatedKey" not in answer


def test_key_conditions_that_are_refused(server: str, client: Any, sorted_table: str) -> None:
    for expression, values, message in KEY_CONDITION_ERRORS:
        refused(
            server,
            message,
            client.query,
            TableName=sorted_table,
            KeyConditionExpression=expression,
            ExpressionAttributeValues=values,
        )


def test_range_keys_of_text_and_bytes(client: Any) -> None:
    with created(client, h="S", r="S") as name:
        for each in ("b", "a", "ab", "ü", "B"):
            client.put_item(TableName=name, Item={"h": text("a"), "r": text(each)})

        def found(condition: str, value: str) -> list[str]:
            answer = client.query(
                TableName=name,
                KeyConditionExpression=f"h = :h AND {condition}",
                ExpressionAttributeValues={**A, ":a": text(value)},
            )
            return [item["r"]["S"] for item in answer["Items"]]

        assert found("r >= :a", "A") == ["B", "a", "ab", "b", "ü"]
        assert found("begins_with(r, :a)", "a") == ["a", "ab"]
    with created(client, h="S", r="B") as name:
        for data in (b"\xff", b"\x00", b"\x7f", b"\x80"):
            client.put_item(TableName=name, Item={"h": text("a"), "r": {"B": data}})
        answer = client.query(
            TableName=name, KeyConditionExpression="h = :h", ExpressionAttributeValues=A
        )
        assert [i["r"]["B"] for i in answer["Items"]] == [b"\x00", b"\x7f", b"\x80", b"\xff"]


def test_a_query_page_by_page_in_both_directions(client: Any, sorted_table: str) -> None:
    for forward, expected in (
        (True, ["-1", "1", "2", "3", "10"]),
        (False, ["10", "3", "2", "1", "-1"]),
    ):
        read: list[str] = []
        start: dict[str, Any] = {}
        while True:
            answer = client.query(
                TableName=sorted_table,
                KeyConditionExpression="h = :h",
                ExpressionAttributeValues=A,
                ScanIndexForward=forward,
                Limit=2,
                **start,
            )
            read += ranges(answer)
            if "LastEvaluatedKey" not in answer:
                break
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        assert read == expected


def test_filters_projections_and_counts(server: str, client: Any, sorted_table: str) -> None:
    def query(**given: Any) -> Any:
        values = {**A, **given.pop("values", {})}
        return client.query(
            TableName=sorted_table,
            KeyConditionExpression="h = :h",
            ExpressionAttributeValues=values,
            **given,
        )

    filtered = query(FilterExpression="v = :v", values={":v": text("v2")})
    assert (ranges(filtered), filtered["ScannedCount"]) == (["2"], 5)
    first = query(FilterExpression="v = :v", values={":v": text("v2")}, Limit=1)
    assert (first["Items"], first["ScannedCount"]) == ([], 1)
    assert first["LastEvaluatedKey"] == {"h": text("a"), "r": number(-1)}
    counted = query(Select="COUNT")
    assert (counted["Count"], "Items" in counted) == (5, False)
    assert query(ProjectionExpression="v", Limit=1)["Items"] == [{"v": text("v-1")}]
    assert query(Limit=1, ReturnConsumedCapacity="TOTAL")["ConsumedCapacity"] == {
        "TableName": sorted_table,
        "CapacityUnits": 0.5,
    }
    exact = query(Limit=5)  # whether more would follow is not known
    assert exact["LastEvaluatedKey"] == {"h": text("a"), "r": number(10)}
    start = {"h": text("b"), "r": number(1)}
    for message, given in (
        (
            "Filter Expression can only contain non-primary key attributes: Primary key attribute: "
            "r",
            {"FilterExpression": "r = :v", "values": {":v": number(1)}},
        ),
        (
            Message(f"The provided starting key is invalid: {SAME_SIZE}", SAME_SIZE),
            {"ExclusiveStartKey": {"h": text("a")}},
        ),
        (
            "The provided starting key does not match the range key predicate",
            {"ExclusiveStartKey": start},
        ),
        (
            "Cannot specify the ProjectionExpression when choosing to get ALL_ATTRIBUTES",
            {"Select": "ALL_ATTRIBUTES", "ProjectionExpression": "v"},
        ),
        (
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
            "SPECIFIC_ATTRIBUTES",
            {"Select": "SPECIFIC_ATTRIBUTES"},
        ),
        (
            Message(
                "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: "
                "Member must have value greater than or equal to 1",
                "Limit must be greater than or equal to 1",
            ),
            {"Limit": 0},
        ),
        ("The table does not have the specified index: idx", {"IndexName": "idx"}),
    ):
        refused(server, message, query, **given)
    refused(
        server,
        "Either the KeyConditions or KeyConditionExpression parameter must be specified in the "
        "request.",
        lambda: client.query(TableName=sorted_table),
    )


def test_a_page_ends_at_a_megabyte(client: Any, table: str) -> None:
    for index in range(5):
        client.put_item(TableName=table, Item={"id": text(f"{index}"), "v": text("x" * 300_000)})
    pages = list(client.get_paginator("scan").paginate(TableName=table))
    assert [len(page["Items"]) for page in pages] == [4, 1]


# --- scans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 7])
def test_segments_of_a_scan_share_the_table_without_overlap(
    client: Any, table: str, segments: int
) -> None:
    expected = {f"{index}" for index in range(60)}
    for index in expected:
        client.put_item(TableName=table, Item={"id": text(index)})
    found: list[str] = []
    for segment in range(segments):
        pages = client.get_paginator("scan").paginate(
            TableName=table,
            Segment=segment,
            TotalSegments=segments,
            PaginationConfig={"PageSize": 9},
        )
        found += [item["id"]["S"] for page in pages for item in page["Items"]]
    assert len(found) == 60
    assert set(found) == expected


def test_scans_that_are_refused(server: str, client: Any, table: str) -> None:
    parameter = "parameter is required but was not present in the request when"
    cases: list[tuple[Message, dict[str, Any]]] = [
        (
            Message(
                "The Segment parameter is zero-based and must be less than parameter "
                "TotalSegments: Segment: 3 is not less than TotalSegments: 2",
                "1 validation error detected: Value '3' at 'segment' failed to satisfy constraint: "
                "Member must have value less than or equal to 1",
            ),
            {"Segment": 3, "TotalSegments": 2},
        ),
        (
            Message(
                f"The TotalSegments {parameter} Segment parameter is present",
                "If segment is specified, total segment must also be specified",
            ),
            {"Segment": 0},
        ),
        (
            Message(
                f"The Segment {parameter} parameter TotalSegments is present",
                "If total segments is specified, a particular segment must also be specified for "
                "this request",
            ),
            {"TotalSegments": 2},
        ),
    ]
    for message, given in cases:
        refused(server, message, client.scan, TableName=table, **given)


# --- batches ----------------------------------------------------------------------------------


def test_batches(server: str, client: Any, sorted_table: str) -> None:
    new, old = {"h": text("c"), "r": number(1)}, {"h": text("a"), "r": number(1)}

    def write(*requests: Any) -> Any:
        return client.batch_write_item(RequestItems={sorted_table: list(requests)})

    def get(*keys: Any, **given: Any) -> Any:
        return client.batch_get_item(RequestItems={sorted_table: {"Keys": list(keys), **given}})

    written = write(
        {"PutRequest": {"Item": {**new, "v": text("x")}}}, {"DeleteRequest": {"Key": old}}
    )
    assert written["UnprocessedItems"] == {}
    read = get(new, old, ProjectionExpression="v")
    assert read["Responses"] == {sorted_table: [{"v": text("x")}]}
    assert read["UnprocessedKeys"] == {}
    put, delete = {"PutRequest": {"Item": new}}, {"DeleteRequest": {"Key": new}}
    puts = [{"PutRequest": {"Item": {"h": text("c"), "r": number(i)}}} for i in range(26)]
    keys = [{"h": text("c"), "r": number(i)} for i in range(101)]
    lacks = "One or more parameter values were invalid: Missing the key r in the item"
    schema = "The provided key element does not match the schema"
    conditions = "The number of conditions on the keys is invalid"
    half = {"h": text("c")}
    for message, act in (
        ("Provided list of item keys contains duplicates", lambda: write(put, delete)),
        ("Provided list of item keys contains duplicates", lambda: get(new, new)),
        ("Too many items requested for the BatchWriteItem call", lambda: write(*puts)),
        ("Too many items requested for the BatchGetItem call", lambda: get(*keys)),
        (
            f"The batch write request list for a table cannot be null or empty: {sorted_table}",
            write,
        ),
        (
            "BatchWriteItem cannot have a null or no requests set",
            lambda: client.batch_write_item(RequestItems={}),
        ),
        (
            "BatchGetItem must have some requests set",
            lambda: client.batch_get_item(RequestItems={}),
        ),
        (
            Message(lacks, "One of the required keys was not given a value"),
            lambda: write({"PutRequest": {"Item": half}}),
        ),
        (Message(schema, conditions), lambda: write({"DeleteRequest": {"Key": half}})),
        (Message(schema, conditions), lambda: get(half)),
    ):
        refused(server, message, act)


# --- transactions -----------------------------------------------------------------------------


def test_a_transaction_is_all_or_nothing(
    server: str, client: Any, table: str, sorted_table: str
) -> None:
    two = {"h": text("a"), "r": number(2)}
    one = {"h": text("a"), "r": number(1)}

    def run(*actions: Any, **given: Any) -> Any:
        return client.transact_write_items(TransactItems=list(actions), **given)

    def get(key: dict[str, Any], name: str = sorted_table) -> Any:
        return client.get_item(TableName=name, Key=key).get("Item")

    put = {"Put": {"TableName": table, "Item": KEY}}
    update = {
        "Update": {
            "TableName": sorted_table,
            "Key": two,
            "UpdateExpression": "SET v = :v",
            "ExpressionAttributeValues": {":v": text("new")},
        }
    }
    delete = {"Delete": {"TableName": sorted_table, "Key": one}}

    def check(condition: str) -> dict[str, Any]:
        key = {"h": text("a"), "r": number(3)}
        return {
            "ConditionCheck": {
                "TableName": sorted_table,
                "Key": key,
                "ConditionExpression": condition,
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    error = refused(
        server,
        "Transaction cancelled, please refer cancellation reasons for specific reasons "
        "[None, None, None, ConditionalCheckFailed]",
        lambda: run(put, update, delete, check("attribute_not_exists(h)")),
        "TransactionCanceledException",
    )
    reasons = error["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None"] * 3 + ["ConditionalCheckFailed"]
    assert reasons[3]["Item"]["v"] == text("v3")
    assert (get(KEY, table), get(two)["v"], get(one)["v"]) == (None, text("v2"), text("v1"))
    run(put, update, delete, check("attribute_exists(h)"))
    assert (get(KEY, table), get(two)["v"], get(one)) == (KEY, text("new"), None)
    read = client.transact_get_items(
        TransactItems=[
            {"Get": {"TableName": table, "Key": KEY}},
            {"Get": {"TableName": sorted_table, "Key": one}},
        ]
    )
    assert read["Responses"] == [{"Item": KEY}, {}]


def test_transactions_that_are_refused(server: str, client: Any, table: str) -> None:
    put = {"Put": {"TableName": table, "Item": KEY}}
    delete = {"Delete": {"TableName": table, "Key": KEY}}
    many = [{"Put": {"TableName": table, "Item": {"id": text(f"{i}")}}} for i in range(101)]
    bad = {"Put": {**put["Put"], "ConditionExpression": "id ="}}
    adds = {
        "Update": {
            "TableName": table,
            "Key": KEY,
            "UpdateExpression": "SET v = id + :a",
            "ExpressionAttributeValues": {":a": number(1)},
        }
    }
    client.put_item(TableName=table, Item=KEY)
    for message, actions in (
        ("Transaction request cannot include multiple operations on one item", [put, delete]),
        ("TransactItems can only contain one of Check, Put, Update or Delete", [{**put, **delete}]),
        ('Invalid ConditionExpression: Syntax error; token: "<EOF>", near: "="', [bad]),
        ("An operand in the update expression has an incorrect data type", [adds]),
    ):
        refused(server, message, client.transact_write_items, TransactItems=actions)
    for actions in ([], many):
        with pytest.raises(client.exceptions.ClientError, match="Member must have length"):
            client.transact_write_items(TransactItems=actions)


def test_a_transaction_with_a_token_is_carried_out_once(
    server: str, client: Any, table: str
) -> None:
    def run(token: str, expression: str = "ADD v :one") -> Any:
        action = {
            "TableName": table,
            "Key": KEY,
            "UpdateExpression": expression,
            "ExpressionAttributeValues": {":one": number(1)},
        }
        return client.transact_write_items(
            TransactItems=[{"Update": action}], ClientRequestToken=token
        )

    token = f"token-{table[-12:]}"
    run(token)
    run(token)
    assert client.get_item(TableName=table, Key=KEY)["Item"]["v"] == number(1)
    run(f"{token}-other")
    assert client.get_item(TableName=table, Key=KEY)["Item"]["v"] == number(2)
    refused(server, "", lambda: run(token, "SET w = :one"), "IdempotentParameterMismatchException")
