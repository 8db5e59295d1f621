"""Validation of requests by shapes, with AWS's own wording of the errors.

First every type is checked: a wrong one is a SerializationException. Then every constraint is
checked: all violations, ten at most, are one ValidationException.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pybase64 import b64decode

from shardline.local.refusals import Refusal

_MAX_VIOLATIONS: Final = 10
_LIST: Final = "Start of list found where not expected"
_MAP: Final = "Start of structure or map found where not expected."
_NUMBER: Final = "class com.amazon.coral.value.json.numbers.TruncatingBigNumber"
_NOT_BASE64: Final = re.compile(r"[^a-zA-Z0-9+/=]|=[^=]")
_INTEGER_MAX: Final = 2**31 - 1
_MAX_QUOTED: Final = 4096
"""Longer values are cut in messages; AWS repeats them whole."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    shortest: int = 0
    longest: int | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Integer:
    """A 32-bit integer."""

    lowest: int | None = None
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes: base64 in JSON, a byte string in CBOR."""

    longest: int | None = None


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of members of one shape."""

    member: Shape
    shortest: int = 0
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from strings to strings."""

    key: Text
    value: Text
    shortest: int = 0
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class Structure:
    """Members by name. Unknown members are ignored, as AWS does."""

    members: dict[str, Shape] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    """Members of which at least one is required; the first one is named if all are missing."""


Shape = Text | Integer | Boolean | Timestamp | Blob | ListOf | MapOf | Structure


def validate(request: dict[str, Any], shape: Structure) -> dict[str, Any]:
    """Return the known members of a request, or raise `Refusal`."""
    checked = {
        name: _typed(request[name], member)
        for name, member in shape.members.items()
        if request.get(name) is not None
    }
    violations: list[str] = []
    for violation in _structure_violations(checked, shape, ""):
        violations.append(violation)
        if len(violations) == _MAX_VIOLATIONS:
            break
    if violations:
        errors = "error" if len(violations) == 1 else "errors"
        raise Refusal(
            "ValidationException",
            f"{len(violations)} validation {errors} detected: {'; '.join(violations)}",
        )
    return checked


# --- types ------------------------------------------------------------------------------------


def _typed(value: Any, shape: Shape) -> Any:
    """Return a value in the type of its shape, or raise a SerializationException."""
    match shape:
        case Structure():
            return _structure(value, shape)
        case ListOf():
            if not isinstance(value, list):
                raise _wrong(_MAP if isinstance(value, dict) else "Expected list or null")
            return [None if each is None else _typed(each, shape.member) for each in value]
        case MapOf():
            if not isinstance(value, dict):
                raise _wrong(_LIST if isinstance(value, list) else "Expected map or null")
            pairs = {_text(key): _typed(each, shape.value) for key, each in value.items()}
            return {key: "" if each is None else each for key, each in pairs.items()}
    if isinstance(value, list):
        raise _wrong(_LIST)
    if isinstance(value, dict):
        raise _wrong(_MAP)
    match shape:
        case Text():
            return _text(value)
        case Integer():
            return _integer(value)
        case Boolean():
            return _boolean(value)
        case Timestamp():
            return _timestamp(value)
        case Blob():
            return _blob(value)
    raise AssertionError(shape)


def _structure(value: Any, shape: Structure) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(_LIST if isinstance(value, list) else "Expected null")
    return {
        name: _typed(value[name], member)
        for name, member in shape.members.items()
        if value.get(name) is not None
    }


def _text(value: Any) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    raise _wrong(f"{_java_class(value)} can not be converted to an String")


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(f"{_java_class(value)} can not be converted to an Integer")
    return min(max(math.floor(value), -_INTEGER_MAX - 1), _INTEGER_MAX)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    name = _quoted(value.upper()) if isinstance(value, str) else _java_class(value)
    raise _wrong(f"{name} can not be converted to an Boolean")


def _timestamp(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(f"{_java_class(value)} can not be converted to milliseconds since epoch")
    return value


def _blob(value: Any) -> str | bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise _wrong(f"{_java_class(value)} can not be converted to a Blob")
    if not _is_base64(value) or not _is_canonical(value):
        raise _wrong(f"{_quoted(value)} can not be converted to a Blob: {_base64_fault(value)}")
    return value


def _is_base64(value: str) -> bool:
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_blob(value: Any, longest: int) -> bool:
    """Return true for bytes, or a base64 text of them, if they are not too many; it is quick."""
    if isinstance(value, bytes):
        return len(value) <= longest
    try:
        return len(b64decode(value, validate=True)) <= longest and _is_canonical(value)
    except (TypeError, ValueError):
        return False


def _is_canonical(data: str) -> bool:
    """Return true unless a base64 text has bits set in its last character that no byte uses."""
    if not data.endswith("="):
        return True
    return data[-3] in "AQgw" if data.endswith("==") else data[-2] in "AEIMQUYcgkosw048"


def _base64_fault(value: str) -> str:
    if len(value) % 4:
        return f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(value)}"
    if found := _NOT_BASE64.search(value):
        return f"Invalid Base64 character: '{found[0][0]}'"
    return "Invalid last non-pad Base64 character dectected"


def _java_class(value: Any) -> str:
    match value:
        case bool():
            return "class java.lang.Boolean"
        case int() | float():
            return _NUMBER
        case str():
            return "class java.lang.String"
        case bytes():
            return "class java.nio.HeapByteBuffer"
        case _:
            return "class java.lang.Object"


def _wrong(message: str) -> Refusal:
    return Refusal("SerializationException", message)


# --- constraints ------------------------------------------------------------------------------


def _structure_violations(value: dict[str, Any], shape: Structure, parent: str) -> Iterator[str]:
    for name, member in shape.members.items():
        path = f"{parent}{name[0].lower()}{name[1:]}"
        if name in value:
            yield from _violations(value[name], member, path)
        elif name in shape.required or (
            name in shape.alternatives[:1] and value.keys().isdisjoint(shape.alternatives)
        ):
            yield _violation("null", path, "Member must not be null")


def _violations(value: Any, shape: Shape, path: str) -> Iterator[str]:
    match shape:
        case Structure():
            yield from _structure_violations(value, shape, f"{path}.")
        case ListOf():
            yield from _length_violations(len(value), _shown(value), shape, path)
            if isinstance(shape.member, Text):
                yield from _member_violations(value, shape.member, _shown(value), path)
                return
            for place, each in enumerate(value, start=1):
                if each is None:
                    yield _violation("null", f"{path}.{place}.member", "Member must not be null")
                else:
                    yield from _violations(each, shape.member, f"{path}.{place}.member")
        case MapOf():
            shown = _shown(value)
            yield from _length_violations(len(value), shown, shape, path)
            yield from _pair_violations(list(value), shape.key, "Map keys", shown, path)
            yield from _pair_violations(list(value.values()), shape.value, "Map value", shown, path)
        case Text():
            yield from _text_violations(value, shape, path)
        case Integer(lowest, highest):
            if lowest is not None and value < lowest:
                must = f"Member must have value greater than or equal to {lowest}"
                yield _violation(f"'{value}'", path, must)
            if highest is not None and value > highest:
                must = f"Member must have value less than or equal to {highest}"
                yield _violation(f"'{value}'", path, must)
        case Blob(longest):
            size = len(value) if isinstance(value, bytes) else blob_size(value)
            if longest is not None and size > longest:
                shown = f"'java.nio.HeapByteBuffer[pos=0 lim={size} cap={size}]'"
                must = f"Member must have length less than or equal to {longest}"
                yield _violation(shown, path, must)


def blob_size(base64: str) -> int:
    """Return the number of bytes that a valid base64 text stands for."""
    return len(base64) // 4 * 3 - base64.count("=", -2)


def _text_violations(value: str, shape: Text, path: str) -> Iterator[str]:
    if shape.pattern is not None and not re.fullmatch(shape.pattern, value, re.ASCII):
        must = f"Member must satisfy regular expression pattern: {shape.pattern}"
        yield _violation(_quoted(value), path, must)
    if shape.choices and value not in shape.choices:
        must = f"Member must satisfy enum value set: [{', '.join(shape.choices)}]"
        yield _violation(_quoted(value), path, must)
    yield from _length_violations(len(value), _quoted(value), shape, path)


def _length_violations(
    length: int, shown: str, shape: Text | ListOf | MapOf, path: str
) -> Iterator[str]:
    if length < shape.shortest:
        must = f"Member must have length greater than or equal to {shape.shortest}"
        yield _violation(shown, path, must)
    if shape.longest is not None and length > shape.longest:
        must = f"Member must have length less than or equal to {shape.longest}"
        yield _violation(shown, path, must)


def _member_violations(values: list[Any], shape: Text, shown: str, path: str) -> Iterator[str]:
    if not all(isinstance(each, str) and _fits(each, shape) for each in values):
        yield _violation(shown, path, f"Member must satisfy constraint: {_bounds(shape)}")


def _pair_violations(
    values: list[str], shape: Text, name: str, shown: str, path: str
) -> Iterator[str]:
    if not all(_fits(each, shape) for each in values):
        yield _violation(shown, path, f"{name} must satisfy constraint: {_bounds(shape)}")


def _fits(value: str, shape: Text) -> bool:
    return shape.shortest <= len(value) <= (shape.longest or len(value))


def _bounds(shape: Text) -> str:
    return (
        f"[Member must have length less than or equal to {shape.longest}, "
        f"Member must have length greater than or equal to {shape.shortest}]"
    )


def _shown(value: list[Any] | dict[str, str]) -> str:
    if isinstance(value, dict):
        return _quoted("{" + ", ".join(f"{key}={each}" for key, each in value.items()) + "}")
    texts = (each if isinstance(each, str) else "…" for each in value)
    return _quoted(f"[{', '.join(texts)}]")


def _quoted(value: str) -> str:
    return f"'{value}'" if len(value) <= _MAX_QUOTED else f"'{value[:_MAX_QUOTED]}…'"


def _violation(shown: str, path: str, must: str) -> str:
    return f"Value {shown} at '{path}' failed to satisfy constraint: {must}"
