"""The parser takes any text: it returns a tree, or refuses in the service's words."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.local.dynamodb.parser import parse_condition, parse_projection, parse_update
from shardline.local.dynamodb.placeholders import Placeholders
from shardline.local.dynamodb.syntax import And, Comparison, Not, Or, Path, Placeholder
from shardline.local.refusals import Refusal

WORDS = st.sampled_from(
    [
        *(
            "a",
            "b.c",
            "l[0]",
            "#n",
            ":v",
            "(",
            ")",
            ",",
            "=",
            "<>",
            "<",
            "+",
            "-",
            ".",
            "[",
            "]",
            "1",
        ),
        *(
            "AND",
            "or",
            "NOT",
            "BETWEEN",
            "IN",
            "SET",
            "REMOVE",
            "ADD",
            "DELETE",
            "size",
            "contains",
        ),
        *("attribute_exists", "if_not_exists", "list_append", "name", "ü", "'", "{", " "),
    ]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=30)


BOUNDS = [
    "(" * 4000,
    "size(" * 800,
    "(" * 5000,
    "NOT " * 1000 + "a = :v",
    " AND ".join(["a = :v"] * 302),
    "a[" + "1" * 5000 + "] = :v",
]


@pytest.mark.parametrize("text", BOUNDS, ids=[text[:5] + f" {len(text)}" for text in BOUNDS])
def test_an_expression_is_bounded(text: str) -> None:
    with pytest.raises(Refusal, match="Invalid ConditionExpression"):
        parse_condition("ConditionExpression", text, placeholders())
    with pytest.raises(Refusal, match="Invalid UpdateExpression"):
        parse_update(f"SET a = {text}", placeholders())


def placeholders(**names: str) -> Placeholders:
    values: dict[str, Any] = {":v": {"S": "x"}, ":a": {"N": "1"}}
    return Placeholders(
        {
            "ConditionExpression": "",
            "ExpressionAttributeNames": {"#n": "name", **names},
            "ExpressionAttributeValues": values,
        }
    )


@given(TEXTS)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (
        lambda: parse_condition("ConditionExpression", text, placeholders()),
        lambda: parse_update(text, placeholders()),
        lambda: parse_projection(text, placeholders()),
    ):
        with suppress(Refusal):  # anything else fails the test
            parse()


def test_and_binds_more_tightly_than_or_and_not_more_than_both() -> None:
    parsed = parse_condition(
        "FilterExpression", "NOT a = :v AND b = :v OR c[1].d = :v", placeholders()
    )
    value = Placeholder(":v")
    assert parsed == Or(
        And(Not(Comparison("=", Path(("a",)), value)), Comparison("=", Path(("b",)), value)),
        Comparison("=", Path(("c", 1, "d")), value),
    )


@pytest.mark.parametrize("expression", ["(a = :v)", "a = (:v)", "((a = :v) AND (b = :v))"])
def test_parentheses_that_group_are_allowed(expression: str) -> None:
    parse_condition("FilterExpression", expression, placeholders())
