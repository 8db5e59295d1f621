"""Checked access to the members of a request."""

from __future__ import annotations

import re
from typing import Any, Literal, overload

from shardline.core.shards import HASH_SPACE_END
from shardline.local.refusals import Refusal

_HASH_KEY = re.compile(r"0|[1-9]\d{0,38}", re.ASCII)


@overload
def text(request: dict[str, Any], name: str, *, required: Literal[True] = True) -> str: ...
@overload
def text(request: dict[str, Any], name: str, *, required: bool) -> str | None: ...
def text(request: dict[str, Any], name: str, *, required: bool = True) -> str | None:
    """Return a string member, or None if it is absent and not required."""
    value = request.get(name)
    if value is None:
        if required:
            raise Refusal("ValidationException", f"{name} is required.")
        return None
    if not isinstance(value, str):
        raise Refusal("SerializationException", f"{name} must be a string.")
    return value


def integer(
    request: dict[str, Any], name: str, lowest: int, highest: int, default: int | None = None
) -> int:
    """Return an integer member within its bounds; it is required unless a default is given."""
    value = request.get(name)
    if value is None:
        if default is None:
            raise Refusal("ValidationException", f"{name} is required.")
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refusal("SerializationException", f"{name} must be a whole number.")
    if not lowest <= value <= highest:
        raise Refusal(
            "ValidationException", f"{name} is {value}: it must be {lowest} to {highest}."
        )
    return value


def time_ms(request: dict[str, Any], name: str) -> int:
    """Return a timestamp member, sent as seconds since 1970, rounded up to milliseconds."""
    value = request.get(name)
    if value is None:
        raise Refusal("InvalidArgumentException", f"{name} is required here.")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Refusal("SerializationException", f"{name} must be seconds since 1970.")
    microseconds = round(value * 1_000_000)
    return -(-microseconds // 1000)


def hash_key(value: str, name: str) -> int:
    """Return the value of a hash key: a decimal number of 128 bits."""
    if not _HASH_KEY.fullmatch(value) or int(value) > HASH_SPACE_END:
        raise Refusal("InvalidArgumentException", f"{name} {value[:60]!r} is not 0 to 2^128 - 1.")
    return int(value)
