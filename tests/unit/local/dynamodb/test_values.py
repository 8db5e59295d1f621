"""Values: one form for each, and what cannot be stored."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.local.dynamodb.values import normalize, normalize_item, order_of, size_of_item
from shardline.local.refusals import Refusal
from tests.contract.table_cases import VALUE_ERRORS, VALUES, Message
from tests.unit.local.dynamodb.expressions import as_sent

BY_VALUE = [case for case in VALUE_ERRORS if "Item size" not in case[1].aws]


@pytest.mark.parametrize(("written", "read"), VALUES)
def test_a_value_has_one_form(written: dict[str, Any], read: dict[str, Any]) -> None:
    assert normalize(as_sent(written)) == as_sent(read)


@pytest.mark.parametrize(("value", "message"), BY_VALUE)
def test_a_value_is_refused_in_the_words_of_the_service(
    value: dict[str, Any], message: Message
) -> None:
    with pytest.raises(Refusal) as refused:
        normalize(as_sent(value))
    assert refused.value.message == message.aws


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=6
    )
)
def test_numbers_keep_their_value_and_have_one_text(number: Decimal) -> None:
    form = normalize({"N": str(number)})
    assert Decimal(form["N"]) == number
    assert normalize({"N": f"{number:E}"}) == form
    assert normalize(form) == form
    assert order_of(form) == number


def test_sizes_are_counted_as_the_service_does() -> None:
    item = normalize_item(
        {"id": {"S": "ü"}, "b": {"B": "AAAA"}, "l": {"L": [{"BOOL": True}]}, "m": {"M": {}}}
    )
    assert size_of_item(item) == (2 + 2) + (1 + 3) + (1 + 3 + 1 + 1) + (1 + 3)


@pytest.mark.parametrize("digits", [12, 18, 19, 400])
def test_a_number_with_any_exponent_is_refused_as_the_service_does(digits: int) -> None:
    exponent = "9" * digits
    with pytest.raises(Refusal, match="Number overflow"):
        normalize({"N": f"1e{exponent}"})
    with pytest.raises(Refusal, match="Number underflow"):
        normalize({"NS": [f"-1.5E-{exponent}"]})
    assert normalize({"N": f"-0.0e{exponent}"}) == {"N": "0"}


@pytest.mark.parametrize("kind", ["L", "M"])
def test_values_lie_32_levels_deep_and_no_deeper(kind: str) -> None:
    value: dict[str, Any] = {"S": "x"}
    for _ in range(31):
        value = {kind: [value] if kind == "L" else {"a": value}}
    assert normalize(value) == value
    assert size_of_item({"name": value})
    deeper = {"M": {"a": value}}
    for refuse in (normalize, lambda each: size_of_item({"name": each})):
        with pytest.raises(Refusal, match="Nesting Levels have exceeded supported limits"):
            refuse(deeper)
