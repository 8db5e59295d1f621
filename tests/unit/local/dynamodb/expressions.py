"""Expressions evaluated in memory, without a server: what the contract suite asks, but faster."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from shardline.local.dynamodb.placeholders import Placeholders
from shardline.local.dynamodb.values import Item, normalize_item


def placeholders(label: str, values: dict[str, Any]) -> Placeholders:
    """Return the placeholders of a request with one expression."""
    request: dict[str, Any] = {label: ""}
    if values:
        request["ExpressionAttributeValues"] = as_sent(values)
    return Placeholders(request)


def item(content: dict[str, Any]) -> Item:
    """Return an item in its one form."""
    return normalize_item(as_sent(content))


def as_sent(value: Any) -> Any:
    """Return a value as a client sends it: bytes as base64 text."""
    match value:
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {name: as_sent(each) for name, each in value.items()}
        case list():
            return [as_sent(each) for each in value]
    return value
