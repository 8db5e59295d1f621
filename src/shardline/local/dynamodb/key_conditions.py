"""The key condition of a query: one hash key, and a range of sort keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shardline.local.dynamodb.conditions import begins_with, check_condition, compare
from shardline.local.dynamodb.parser import parse_condition
from shardline.local.dynamodb.syntax import (
    And,
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
from shardline.local.dynamodb.values import Value, invalid, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.local.dynamodb.placeholders import Placeholders
    from shardline.local.dynamodb.table import Schema

_LABEL: Final = "KeyConditionExpression"
_FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """The hash key of a query, and the tests that its sort keys must pass."""

    hash_value: Value
    range_tests: tuple[tuple[str, Value], ...] = ()
    """Pairs of a comparator (or "begins_with") and a value."""

    def matches(self, range_value: Value | None) -> bool:
        """Return true if a sort key passes."""
        return all(
            begins_with(range_value, value)
            if test == "begins_with"
            else compare(test, range_value, value)
            for test, value in self.range_tests
        )


def parse_key_condition(text: str, schema: Schema, placeholders: Placeholders) -> KeyCondition:
    """Parse the key condition of a query on a table."""
    condition = parse_condition(_LABEL, text, placeholders)
    check_condition(_LABEL, condition, placeholders.values)
    tests: dict[str, tuple[tuple[str, Value], ...]] = {}
    parts = _conjuncts(condition)
    for part in parts:
        name, found = _test(part, placeholders.values)
        if name in tests:
            raise invalid("KeyConditionExpressions must only contain one condition per key")
        tests[name] = found
    if len(parts) > 2:
        raise invalid("Conditions can be of length 1 or 2 only")
    hash_tests = tests.pop(schema.hash_name, None)
    if hash_tests is None or any(name != schema.range_name for name in tests):
        raise invalid("Query condition missed key schema element")
    [(comparator, hash_value), *_] = hash_tests
    if comparator != "=" or len(hash_tests) > 1:
        raise invalid("Query key condition not supported")
    _check_type(schema, schema.hash_name, hash_value)
    schema.check_not_empty(schema.hash_name, hash_value)
    range_tests = tests.get(schema.range_name or "", ())
    for _, value in range_tests:
        _check_type(schema, schema.range_name or "", value)
    return KeyCondition(hash_value, range_tests)


def _check_type(schema: Schema, name: str, value: Value) -> None:
    if kind_of(value) != schema.types[name]:
        raise invalid(
            "One or more parameter values were invalid: Condition parameter type does not match "
            "schema type"
        )


def _conjuncts(condition: Condition) -> list[Condition]:
    if isinstance(condition, And):
        return [*_conjuncts(condition.left), *_conjuncts(condition.right)]
    return [condition]


def _test(
    condition: Condition, values: Mapping[str, Value]
) -> tuple[str, tuple[tuple[str, Value], ...]]:
    match condition:
        case Comparison(comparator, Path() as path, Placeholder(name)) if comparator != "<>":
            return _name(path), ((comparator, values[name]),)
        case Comparison(comparator, Placeholder(name), Path() as path) if comparator != "<>":
            return _name(path), ((_FLIPPED[comparator], values[name]),)
        case Between(Path() as path, Placeholder(low), Placeholder(high)):
            return _name(path), ((">=", values[low]), ("<=", values[high]))
        case Function("begins_with", (Path() as path, Placeholder(name))):
            return _name(path), (("begins_with", values[name]),)
        case Comparison("<>"):
            raise _unsupported("<>")
        case Or() | Not() | In():
            raise _unsupported(type(condition).__name__.upper())
        case Function(name) if name != "begins_with":
            raise _unsupported(name)
    raise invalid("KeyConditionExpressions cannot contain nested operations")


def _name(path: Path) -> str:
    [name, *rest] = path.parts
    if rest:
        raise invalid(
            "Key attributes must be scalars; list random access '[]' and map lookup '.' are not "
            f"allowed: Key: {name}"
        )
    return str(name)


def _unsupported(operator: str) -> Exception:
    return invalid(f"Invalid operator used in {_LABEL}: {operator}")


def names_in(condition: Condition | Operand) -> set[str]:
    """Return the attributes that a condition looks at, at their top level."""
    match condition:
        case Path(parts):
            return {str(parts[0])}
        case And(one, two) | Or(one, two) | Comparison(_, one, two):
            return names_in(one) | names_in(two)
        case Not(inner):
            return names_in(inner)
        case Between(operand, low, high):
            return names_in(operand) | names_in(low) | names_in(high)
        case In(operand, choices):
            return names_in(operand).union(*map(names_in, choices))
        case Function(_, operands):
            return set().union(*map(names_in, operands))
    return set()
