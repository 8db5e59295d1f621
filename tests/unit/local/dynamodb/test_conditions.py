"""Conditions, with the cases of the contract suite."""

from __future__ import annotations

from typing import Any

import pytest

from shardline.local.dynamodb.conditions import check_condition, holds
from shardline.local.dynamodb.parser import parse_condition
from shardline.local.refusals import Refusal
from tests.contract.table_cases import CONDITION_ERRORS, CONDITIONS, STORED
from tests.unit.local.dynamodb.expressions import item, placeholders

LABEL = "ConditionExpression"


@pytest.mark.parametrize(("expression", "values", "expected"), CONDITIONS)
def test_a_condition_holds_or_not(expression: str, values: dict[str, Any], expected: bool) -> None:
    given = placeholders(LABEL, values)
    condition = parse_condition(LABEL, expression, given)
    check_condition(LABEL, condition, given.values)
    assert holds(condition, item(STORED), given.values) is expected


@pytest.mark.parametrize(("expression", "values", "message"), CONDITION_ERRORS)
def test_a_condition_is_refused_in_the_words_of_the_service(
    expression: str, values: dict[str, Any], message: str
) -> None:
    given = placeholders(LABEL, values)
    with pytest.raises(Refusal) as refused:
        check_condition(LABEL, parse_condition(LABEL, expression, given), given.values)
    assert refused.value.message == f"Invalid {LABEL}: {message}"
