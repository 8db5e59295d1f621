"""Python values as DynamoDB JSON, such as `{"S": "text"}` or `{"N": "1.5"}`, and back.

Numbers are decimal text, so an int, a Decimal and a float come back equal to what was written.
Values that DynamoDB would change or cannot store raise a `ValueError`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from pydantic import SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

Attribute = dict[str, Any]
"""One value in DynamoDB JSON: a dictionary of one kind and its value."""

_MOST_DIGITS: Final = 38
_HIGHEST_EXPONENT: Final = 125
_LOWEST_EXPONENT: Final = -130


def encode(value: Any) -> Attribute:
    """Return a value as DynamoDB JSON.

    Times become UTC in a fixed width that sorts as text. An empty set becomes an empty list,
    because DynamoDB has no empty sets. Anything else becomes what pydantic writes as JSON.
    """
    match value:
        case Enum():
            return encode(value.value)
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": str(value)}
        case int() | float() | Decimal():
            return {"N": _number_text(value)}
        case bytes() | bytearray():
            return {"B": bytes(value)}
        case datetime():
            return {"S": _time_text(value)}
        case Mapping():
            return {"M": {_name(name): encode(each) for name, each in value.items()}}
        case AbstractSet():
            return _encode_set(value)
        case Sequence():
            return {"L": [encode(each) for each in value]}
        case SecretStr() | SecretBytes():
            raise ValueError("a secret would be stored as asterisks: store it as str or bytes")
    time = getattr(value, "datetime", None)
    if isinstance(time, datetime):  # arrow's times hold one
        return encode(time)
    try:
        return encode(to_jsonable_python(value))
    except PydanticSerializationError:
        raise ValueError(f"DynamoDB cannot store a {type(value).__name__}") from None


def decode(attribute: Attribute) -> Any:
    """Return the value of an attribute; a number is an int where it is whole, else a Decimal."""
    ((kind, value),) = attribute.items()
    match kind:
        case "S" | "BOOL":
            return value
        case "N":
            return _number(value)
        case "M":
            return {name: decode(each) for name, each in value.items()}
        case "L":
            return [decode(each) for each in value]
        case "B":
            return _data(value)
        case "SS":
            return set(value)
        case "NS":
            return {_number(each) for each in value}
        case "BS":
            return {_data(each) for each in value}
        case "NULL":
            return None
    raise ValueError(f"DynamoDB has no values of type {kind!r}")


def _encode_set(values: AbstractSet[Any]) -> Attribute:
    if not values:
        return {"L": []}
    encoded = [encode(each) for each in values]
    kinds = {kind for each in encoded for kind in each}
    if len(kinds) > 1 or not kinds <= {"S", "N", "B"}:
        raise ValueError("a set in DynamoDB holds only texts, only numbers or only bytes")
    (kind,) = kinds
    return {f"{kind}S": sorted(each[kind] for each in encoded)}


def _number_text(value: float | Decimal) -> str:
    # repr() gives the shortest text that reads back as this float: at most 17 digits.
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError(f"DynamoDB cannot store the number {value}")
    _, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "0"
    if len(text.rstrip("0")) > _MOST_DIGITS:
        raise ValueError(f"{value} has more digits than the {_MOST_DIGITS} that DynamoDB stores")
    if not _LOWEST_EXPONENT <= len(text) + int(exponent) - 1 <= _HIGHEST_EXPONENT:
        raise ValueError(
            f"{value} is outside the range of DynamoDB numbers: 1E{_LOWEST_EXPONENT} to "
            f"9.9E{_HIGHEST_EXPONENT}"
        )
    return str(number)


def _number(text: str) -> int | Decimal:
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)


def _data(value: bytes | str) -> bytes:
    # A client returns bytes; the JSON of a change holds base64.
    return b64decode(value, validate=True) if isinstance(value, str) else value


def _time_text(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(
            f"{value.isoformat()} has no time zone: use an aware datetime, "
            "for example datetime.now(timezone.utc)"
        )
    try:
        in_utc = value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{value} is outside the years 1 to 9999 in UTC") from None
    return in_utc.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _name(value: Any) -> str:
    if isinstance(value, str) and not isinstance(value, Enum):
        name = value
    else:
        (name,) = to_jsonable_python({value: None})
    if not name:
        raise ValueError("DynamoDB does not allow empty names in a map")
    return str(name)
