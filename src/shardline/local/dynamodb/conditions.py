"""Checks and evaluates conditions: of writes, of filters, and of keys."""

from __future__ import annotations

import operator
from base64 import b64decode
from collections.abc import Mapping
from typing import Final

from shardline.local.dynamodb.paths import read
from shardline.local.dynamodb.syntax import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Condition,
    Function,
    In,
    Not,
    Operand,
    Or,
    Path,
    Placeholder,
)
from shardline.local.dynamodb.values import (
    ORDERED_TYPES,
    TYPES,
    Item,
    Value,
    invalid,
    kind_of,
    order_of,
)

_OPERANDS: Final = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
_ORDERS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_ON_PATHS: Final = frozenset({"attribute_exists", "attribute_not_exists"})


def check_condition(label: str, condition: Condition, values: Mapping[str, Value]) -> None:
    """Raise a refusal for operands that can never fit, whatever the item."""
    _Checker(label, values).check(condition)


def holds(condition: Condition, item: Item, values: Mapping[str, Value]) -> bool:
    """Return true if the condition is true of an item."""
    match condition:
        case And(left, right):
            return holds(left, item, values) and holds(right, item, values)
        case Or(left, right):
            return holds(left, item, values) or holds(right, item, values)
        case Not(inner):
            return not holds(inner, item, values)
        case Comparison(comparator, left, right):
            return compare(comparator, evaluate(left, item, values), evaluate(right, item, values))
        case Between(operand, low, high):
            value = evaluate(operand, item, values)
            return compare(">=", value, evaluate(low, item, values)) and compare(
                "<=", value, evaluate(high, item, values)
            )
        case In(operand, choices):
            value = evaluate(operand, item, values)
            return any(compare("=", value, evaluate(each, item, values)) for each in choices)
        case Function(name, operands):
            return _function_holds(name, [evaluate(each, item, values) for each in operands])


def evaluate(operand: Operand, item: Item, values: Mapping[str, Value]) -> Value | None:
    """Return the value of an operand, or None if the item has none."""
    match operand:
        case Path():
            return read(item, operand)
        case Placeholder(name):
            return values[name]
        case Function("size", (inner,)):
            return _size(evaluate(inner, item, values))
        case Function() | Arithmetic():
            raise AssertionError(operand)  # the parser admits no other here


def compare(comparator: str, left: Value | None, right: Value | None) -> bool:
    """Return true if two values compare so; a missing one only ever differs."""
    if comparator == "=":
        return left is not None and left == right
    if comparator == "<>":
        return left is None or left != right
    if left is None or right is None or kind_of(left) != kind_of(right):
        return False
    if kind_of(left) not in ORDERED_TYPES:
        return False
    return bool(_ORDERS[comparator](order_of(left), order_of(right)))


def begins_with(value: Value | None, prefix: Value | None) -> bool:
    """Return true if a text or binary value starts with another of its type."""
    match value, prefix:
        case {"S": str(text)}, {"S": str(start)}:
            return text.startswith(start)
        case {"B": str(data)}, {"B": str(start)}:
            return b64decode(data).startswith(b64decode(start))
    return False


def _function_holds(name: str, operands: list[Value | None]) -> bool:
    first, second = operands[0], operands[-1]
    match name:
        case "attribute_exists":
            return first is not None
        case "attribute_not_exists":
            return first is None
        case "attribute_type":
            return first is not None and kind_of(first) == (second or {}).get("S")
        case "begins_with":
            return begins_with(first, second)
        case _:
            return _contains(first, second)


def _contains(value: Value | None, wanted: Value | None) -> bool:
    match value, wanted:
        case {"S": str(text)}, {"S": str(part)}:
            return part in text
        case {"B": str(data)}, {"B": str(part)}:
            return b64decode(part) in b64decode(data)
        case {"L": list(members)}, dict():
            return wanted in members
        case ({"SS": list(members)}, {"S": part}) | ({"NS": list(members)}, {"N": part}):
            return part in members
        case {"BS": list(members)}, {"B": part}:
            return part in members
    return False


def _size(value: Value | None) -> Value | None:
    match value:
        case {"S": str(text)}:
            return {"N": str(len(text))}
        case {"B": str(data)}:
            return {"N": str(len(b64decode(data)))}
        case {"SS": m} | {"NS": m} | {"BS": m} | {"L": m} | {"M": m}:
            return {"N": str(len(m))}
    return None


class _Checker:
    """The checks that need no item: numbers of operands, their types, operands that are equal."""

    def __init__(self, label: str, values: Mapping[str, Value]) -> None:
        self._label = label
        self._values = values

    def check(self, condition: Condition) -> None:
        match condition:
            case And(left, right) | Or(left, right):
                self.check(left)
                self.check(right)
            case Not(inner):
                self.check(inner)
            case Comparison(comparator, left, right):
                self._check_operands(comparator, left, right)
                if comparator not in ("=", "<>"):
                    self._check_types(comparator, ORDERED_TYPES, left, right)
            case Between(operand, low, high):
                self._check_operands("BETWEEN", operand, low, high)
                self._check_types("BETWEEN", ORDERED_TYPES, operand, low, high)
                self._check_bounds(low, high)
            case In(operand, choices):
                self._check_operands("IN", operand, *choices)
            case Function(name, operands):
                self._check_function(name, operands)

    def _check_operands(self, operator: str, first: Operand, *others: Operand) -> None:
        for operand in (first, *others):
            if isinstance(operand, Function):
                self._check_function(operand.name, operand.operands)
        if isinstance(first, Path) and first in others:
            raise self._error(
                "The first operand must be distinct from the remaining operands for this operator "
                f"or function; operator: {operator}, first operand: {first}"
            )

    def _check_function(self, name: str, operands: tuple[Operand, ...]) -> None:
        if len(operands) != _OPERANDS[name]:
            raise self._error(
                "Incorrect number of operands for operator or function; operator or function: "
                f"{name}, number of operands: {len(operands)}"
            )
        if name in _ON_PATHS and not isinstance(operands[0], Path):
            raise self._error(
                f"Operator or function requires a document path; operator or function: {name}"
            )
        self._check_operands(name, *operands)
        if name == "begins_with":
            self._check_types(name, frozenset({"S", "B"}), *operands)
        if name == "attribute_type":
            self._check_types(name, frozenset({"S"}), operands[1])
            named = self._literal(operands[1])
            if named is not None and named["S"] not in TYPES:
                raise self._error(
                    f"Invalid attribute type name found; type: {named['S']}, valid types: "
                    "{N,BS,L,B,NULL,M,S,SS,NS,BOOL}"
                )

    def _check_types(self, operator: str, allowed: frozenset[str], *operands: Operand) -> None:
        for operand in operands:
            value = self._literal(operand)
            if value is not None and kind_of(value) not in allowed:
                raise self._error(
                    "Incorrect operand type for operator or function; operator or function: "
                    f"{operator}, operand type: {kind_of(value)}"
                )

    def _check_bounds(self, low: Operand, high: Operand) -> None:
        lower, upper = self._literal(low), self._literal(high)
        if lower is None or upper is None:
            return
        need = None
        if kind_of(lower) != kind_of(upper):
            need = "same data type for lower and upper bounds"
        elif order_of(lower) > order_of(upper):
            need = "upper bound to be greater than or equal to lower bound"
        if need is not None:
            raise self._error(
                f"The BETWEEN operator requires {need}; lower bound operand: {_shown(lower)}, "
                f"upper bound operand: {_shown(upper)}"
            )

    def _literal(self, operand: Operand) -> Value | None:
        return self._values[operand.name] if isinstance(operand, Placeholder) else None

    def _error(self, message: str) -> Exception:
        return invalid(f"Invalid {self._label}: {message}")


def _shown(value: Value) -> str:
    [(kind, content)] = value.items()
    return f"AttributeValue: {{{kind}:{content}}}"
