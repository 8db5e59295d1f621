"""Updates, with the cases of the contract suite."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from shardline.local.dynamodb.parser import parse_update
from shardline.local.dynamodb.updates import check_update, updated
from shardline.local.refusals import Refusal
from tests.contract.table_cases import UPDATE_ERRORS, UPDATED_ITEM, UPDATES, Message
from tests.unit.local.dynamodb.expressions import item, placeholders

if TYPE_CHECKING:
    from shardline.local.dynamodb.values import Item

LABEL = "UpdateExpression"
IN_THE_KEY = "This attribute is part of the key"
BY_EXPRESSION = [case for case in UPDATE_ERRORS if IN_THE_KEY not in case[2].aws]


def update(before: Item, expression: str, values: dict[str, Any]) -> Item:
    given = placeholders(LABEL, values)
    actions = parse_update(expression, given)
    check_update(actions, given.values)
    return updated(before, actions, given.values)


@pytest.mark.parametrize(("expression", "values", "changed"), UPDATES)
def test_an_update_changes_what_it_says_and_leaves_the_old_item_alone(
    expression: str, values: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = item(UPDATED_ITEM)
    kept = deepcopy(before)
    expected = {n: v for n, v in {**UPDATED_ITEM, **changed}.items() if v is not None}
    assert update(before, expression, values) == item(expected)
    assert before == kept


@pytest.mark.parametrize(("expression", "values", "message"), BY_EXPRESSION)
def test_an_update_is_refused_in_the_words_of_the_service(
    expression: str, values: dict[str, Any], message: Message
) -> None:
    with pytest.raises(Refusal) as refused:
        update(item(UPDATED_ITEM), expression, values)
    assert refused.value.message == message.aws
