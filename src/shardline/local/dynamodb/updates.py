"""Applies an update expression to an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from decimal import Context, Decimal
from typing import Final

from shardline.local.dynamodb.paths import check_overlaps, read, remove, write
from shardline.local.dynamodb.syntax import (
    Action,
    Arithmetic,
    Function,
    Operand,
    Path,
    Placeholder,
)
from shardline.local.dynamodb.values import Item, Value, invalid, kind_of, normalize, number

_EXACT: Final = Context(prec=400)
_SETS: Final = frozenset({"SS", "NS", "BS"})
_OPERAND_TYPES: Final = {"ADD": _SETS | {"N"}, "DELETE": _SETS}
_LONG_NAMES: Final = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "M": "MAP",
    "L": "LIST",
    "BOOL": "BOOLEAN",
    "NULL": "NULL",
}


def check_update(actions: Sequence[Action], values: Mapping[str, Value]) -> None:
    """Raise a refusal for what can never be applied, whatever the item."""
    check_overlaps("UpdateExpression", [action.path for action in actions])
    for action in actions:
        match action:
            case Action("ADD" | "DELETE" as section, _, Placeholder(name)):
                kind = kind_of(values[name])
                if kind not in _OPERAND_TYPES[section]:
                    raise _invalid(
                        "Incorrect operand type for operator or function; operator: "
                        f"{section}, operand type: {_LONG_NAMES.get(kind, kind)}, typeSet: "
                        f"ALLOWED_FOR_{section}_OPERAND"
                    )
            case Action(operand=operand) if operand is not None:
                _check_operand(operand, values)


def updated(item: Item, actions: Sequence[Action], values: Mapping[str, Value]) -> Item:
    """Return the item after the update. Operands refer to the item as it was before."""
    after = deepcopy(item)
    removed: list[Path] = []
    written: list[tuple[Path, Value]] = []
    for action in actions:
        match action:
            case Action("SET", path, Path() | Placeholder() | Function() | Arithmetic() as operand):
                written.append((path, _evaluate(operand, item, values)))
            case Action("ADD", path, Placeholder(name)):
                written.append((path, _add(read(item, path), values[name])))
            case Action("DELETE", path, Placeholder(name)):
                left = _subtract(read(item, path), values[name])
                if left is None:
                    removed.append(path)
                else:
                    written.append((path, left))
            case _:
                removed.append(action.path)
    # From low to high, so that values beyond the end of a list are appended in that order;
    # removals from high to low, so that none moves the place of the next.
    for path, value in sorted(written, key=lambda each: _order(each[0])):
        write(after, path, deepcopy(value))
    for path in sorted(removed, key=_order, reverse=True):
        remove(after, path)
    return after


def _order(path: Path) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (-1, part) for part in path.parts]


def _evaluate(operand: Operand, item: Item, values: Mapping[str, Value]) -> Value:
    match operand:
        case Path():
            value = read(item, operand)
            if value is None:
                raise invalid(
                    "The provided expression refers to an attribute that does not exist in the item"
                )
            return value
        case Placeholder(name):
            return values[name]
        case Arithmetic(sign, left, right):
            one = _number_of(_evaluate(left, item, values))
            two = _number_of(_evaluate(right, item, values))
            return number(_EXACT.add(one, two) if sign == "+" else _EXACT.subtract(one, two))
        case Function("if_not_exists", (Path() as path, otherwise)):
            value = read(item, path)
            return _evaluate(otherwise, item, values) if value is None else value
        case Function(_, (first, second)):
            joined = [_evaluate(each, item, values).get("L") for each in (first, second)]
            if None in joined:
                raise _wrong_type()
            return {"L": [each for part in joined for each in part or ()]}
        case Function():
            raise AssertionError(operand)  # check_update admits no other


def _add(current: Value | None, added: Value) -> Value:
    if current is None:
        return added
    kind = kind_of(added)
    if kind_of(current) != kind:
        raise _wrong_type()
    if kind == "N":
        return number(_EXACT.add(Decimal(current["N"]), Decimal(added["N"])))
    return normalize({kind: list({*current[kind], *added[kind]})})


def _subtract(current: Value | None, taken: Value) -> Value | None:
    """Return a set without these elements; None if nothing is left, or nothing was there."""
    if current is None:
        return None
    kind = kind_of(taken)
    if kind_of(current) != kind:
        raise _wrong_type()
    left = [each for each in current[kind] if each not in taken[kind]]
    return {kind: left} if left else None


def _number_of(value: Value) -> Decimal:
    if "N" not in value:
        raise _wrong_type()
    return Decimal(value["N"])


def _check_operand(operand: Operand, values: Mapping[str, Value]) -> None:
    match operand:
        case Arithmetic(sign, left, right):
            for each in (left, right):
                _check_operand(each, values)
                _check_literal(sign, "N", each, values)
        case Function(name, operands):
            if len(operands) != 2:
                raise _invalid(
                    "Incorrect number of operands for operator or function; operator or function: "
                    f"{name}, number of operands: {len(operands)}"
                )
            if name == "if_not_exists" and not isinstance(operands[0], Path):
                raise _invalid(
                    f"Operator or function requires a document path; operator or function: {name}"
                )
            for each in operands:
                _check_operand(each, values)
                if name == "list_append":
                    _check_literal(name, "L", each, values)


def _check_literal(operator: str, kind: str, operand: Operand, values: Mapping[str, Value]) -> None:
    if isinstance(operand, Placeholder) and kind not in values[operand.name]:
        raise _invalid(
            "Incorrect operand type for operator or function; operator or function: "
            f"{operator}, operand type: {kind_of(values[operand.name])}"
        )


def _wrong_type() -> Exception:
    return invalid("An operand in the update expression has an incorrect data type")


def _invalid(message: str) -> Exception:
    return invalid(f"Invalid UpdateExpression: {message}")
