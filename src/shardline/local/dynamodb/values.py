"""Attribute values in DynamoDB JSON: checked and brought into one form, compared, measured."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, Final

from shardline.local.refusals import Refusal

Value = dict[str, Any]
"""One value: `{"S": "text"}`. Binary data stays base64 text, as it travels."""
Item = dict[str, Value]

TYPES: Final = ("S", "N", "B", "SS", "NS", "BS", "M", "L", "BOOL", "NULL")
ORDERED_TYPES: Final = frozenset({"S", "N", "B"})
MOST_ITEM_BYTES: Final = 400 * 1024
MOST_LEVELS: Final = 32
"""How deep values may lie in lists and maps; an attribute of the item is the first level."""

_NUMBER: Final = re.compile(
    r"(?P<digits>[+-]?(?:\d+\.?\d*|\.\d+))(?:[eE](?P<exponent>[+-]?\d+))?", re.ASCII
)
_MOST_EXPONENT_DIGITS: Final = 5
_MOST_DIGITS: Final = 38
_EXACT: Final = Context(prec=400)
_HIGHEST_EXPONENT: Final = 125
_LOWEST_EXPONENT: Final = -130
_INVALID: Final = "One or more parameter values were invalid: "
_PLURALS: Final = {"SS": "string", "NS": "number"}


def invalid(message: str) -> Refusal:
    """Return the refusal of a request that is not valid."""
    return Refusal("ValidationException", message)


def normalize_item(item: object, level: int = 1) -> Item:
    """Return an item with every value in its one form. Raises `Refusal` for what is invalid."""
    if not isinstance(item, dict):
        raise Refusal(
            "SerializationException", "Start of structure or map found where not expected"
        )
    return {name: normalize(value, level) for name, value in item.items()}


def normalize(value: object, level: int = 1) -> Value:
    """Return a value in its one form: plain numbers, sorted sets. Raises `Refusal`."""
    _check_level(level)
    if not isinstance(value, dict):
        raise Refusal("SerializationException", "Unexpected value type in payload")
    kinds = [kind for kind in value if kind in TYPES]
    if not kinds:
        raise invalid(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
        )
    if len(kinds) > 1:
        raise invalid(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of "
            "the supported datatypes"
        )
    [kind] = kinds
    content = value[kind]
    if kind == "M":
        return {kind: _map(content, level + 1)}
    if kind == "L":
        return {kind: [normalize(each, level + 1) for each in _array(content)]}
    return {kind: _NORMALIZE[kind](content)}


def kind_of(value: Value) -> str:
    """Return the type of a value, such as "S"."""
    return next(iter(value))


def order_of(value: Value) -> Any:
    """Return what orders a value among the values of its type: S, N or B."""
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return content.encode()
        case "N":
            return Decimal(content)
        case _:
            return b64decode(content)


def number(value: Decimal) -> Value:
    """Return a number as a value. Raises `Refusal` if the service cannot store it."""
    return {"N": _number_text(value)}


def size_of_item(item: Mapping[str, Value], level: int = 1) -> int:
    """Return the size of an item as the service counts it. Raises `Refusal` if it is too deep."""
    return sum(len(name.encode()) + size_of(value, level) for name, value in item.items())


def size_of(value: Value, level: int = 1) -> int:
    """Return the size of a value in bytes, as the service counts it."""
    _check_level(level)
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return len(content.replace("-", "").replace(".", "").strip("0")) // 2 + 2
        case "B":
            return len(b64decode(content))
        case "M":
            return 3 + size_of_item(content, level + 1) + len(content)
        case "L":
            return 3 + sum(1 + size_of(each, level + 1) for each in content)
        case "SS" | "NS" | "BS":
            return sum(size_of({kind[0]: each}) for each in content)
        case _:
            return 1


def _check_level(level: int) -> None:
    if level > MOST_LEVELS:
        raise invalid(
            "Nesting Levels have exceeded supported limits: Attributes in the item have nested "
            "levels beyond supported limit"
        )


# --- one form for each type ------------------------------------------------------------------


def _string(content: object) -> str:
    if not isinstance(content, str):
        raise Refusal("SerializationException", "Unexpected token received from parser")
    return content


def _number(content: object) -> str:
    text = _string(content)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise invalid(f"The parameter cannot be converted to a numeric value: {text}")
    digits, exponent = match["digits"], match["exponent"]
    # A Decimal takes exponents of up to 18 digits, arithmetic far smaller ones.
    if exponent is not None and len(exponent.lstrip("+-0")) > _MOST_EXPONENT_DIGITS:
        if not digits.strip("+-.0"):
            return "0"
        raise _underflow() if exponent.startswith("-") else _overflow()
    return _number_text(Decimal(text))


def _number_text(value: Decimal) -> str:
    if value == 0:
        return "0"
    plain = value.normalize(_EXACT)
    _, digits, exponent = plain.as_tuple()
    magnitude = len(digits) + int(exponent) - 1
    if magnitude > _HIGHEST_EXPONENT:
        raise _overflow()
    if magnitude < _LOWEST_EXPONENT:
        raise _underflow()
    if len(digits) > _MOST_DIGITS:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    return f"{plain:f}"


def _overflow() -> Refusal:
    return invalid(
        "Number overflow. Attempting to store a number with magnitude larger than supported range"
    )


def _underflow() -> Refusal:
    return invalid(
        "Number underflow. Attempting to store a number with magnitude smaller than supported range"
    )


def _binary(content: object) -> str:
    text = _string(content)
    try:
        b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise Refusal("SerializationException", "Invalid Base64 data") from None
    return text


def _boolean(content: object) -> bool:
    if not isinstance(content, bool):
        raise Refusal("SerializationException", "Unexpected token received from parser")
    return content


def _null(content: object) -> bool:
    if not _boolean(content):
        raise invalid(f"{_INVALID}Null attribute value types must have the value of true")
    return True


def _map(content: object, level: int) -> Item:
    if isinstance(content, dict) and "" in content:
        raise invalid("Empty attribute name")
    return normalize_item(content, level)


def _array(content: object) -> list[Any]:
    if not isinstance(content, list):
        raise Refusal("SerializationException", "Unexpected value type in payload")
    return content


def _strings(content: object) -> list[str]:
    texts = [_string(each) for each in _set_of(content, "SS")]
    if len(set(texts)) < len(texts):
        raise invalid(f"{_INVALID}Input collection [{', '.join(texts)}] contains duplicates")
    return sorted(texts, key=str.encode)


def _numbers(content: object) -> list[str]:
    texts = [_number(each) for each in _set_of(content, "NS")]
    if len(set(texts)) < len(texts):
        raise invalid("Input collection contains duplicates")
    return sorted(texts, key=Decimal)


def _binaries(content: object) -> list[str]:
    if content == []:
        raise invalid(f"{_INVALID}Binary sets should not be empty")
    texts = [_binary(each) for each in _array(content)]
    if len(set(texts)) < len(texts):
        raise invalid(f"{_INVALID}Input collection of type BS contains duplicates.")
    return sorted(texts, key=b64decode)


def _set_of(content: object, kind: str) -> list[Any]:
    if content == []:
        raise invalid(f"{_INVALID}An {_PLURALS[kind]} set  may not be empty")
    return _array(content)


_NORMALIZE: Final[dict[str, Callable[[object], Any]]] = {
    "S": _string,
    "N": _number,
    "B": _binary,
    "SS": _strings,
    "NS": _numbers,
    "BS": _binaries,
    "BOOL": _boolean,
    "NULL": _null,
}
