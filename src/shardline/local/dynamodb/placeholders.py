"""The names and values of a request that its expressions refer to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from shardline.local.dynamodb.syntax import Placeholder
from shardline.local.dynamodb.values import Value, invalid, normalize
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.dynamodb.lexer import Tokens

_EXPRESSIONS: Final = (
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
)
_NAMES: Final = "ExpressionAttributeNames"
_VALUES: Final = "ExpressionAttributeValues"


class Placeholders:
    """What `#name` and `:value` stand for in the expressions of one request."""

    def __init__(self, request: dict[str, Any]) -> None:
        has_expressions = any(name in request for name in _EXPRESSIONS)
        self._names = _entries(request, _NAMES, "#", has_expressions)
        self.values: Final[dict[str, Value]] = {}
        for name, value in _entries(request, _VALUES, ":", has_expressions).items():
            try:
                self.values[name] = normalize(value)
            except Refusal as refusal:
                raise Refusal(
                    refusal.name,
                    f"{_VALUES} contains invalid value: {refusal.message} for key {name}",
                ) from None
        self._used: set[str] = set()

    def name(self, alias: str, tokens: Tokens) -> str:
        """Return the attribute name that an alias stands for."""
        if alias not in self._names:
            raise tokens.error(
                "An expression attribute name used in the document path is not defined; "
                f"attribute name: {alias}"
            )
        self._used.add(alias)
        return str(self._names[alias])

    def value(self, name: str, tokens: Tokens) -> Placeholder:
        """Return the operand for a value of the request."""
        if name not in self.values:
            raise tokens.error(
                "An expression attribute value used in expression is not defined; "
                f"attribute value: {name}"
            )
        self._used.add(name)
        return Placeholder(name)

    def check_used(self) -> None:
        """Raise a refusal if a name or value was given that no expression uses."""
        for label, given in ((_NAMES, self._names), (_VALUES, self.values)):
            unused = [name for name in given if name not in self._used]
            if unused:
                raise invalid(
                    f"Value provided in {label} unused in expressions: keys: "
                    f"{{{', '.join(unused)}}}"
                )


def _entries(
    request: dict[str, Any], label: str, sign: str, has_expressions: bool
) -> dict[str, Any]:
    if label not in request:
        return {}
    entries = request[label]
    if not isinstance(entries, dict):
        raise Refusal("SerializationException", f"{label} must be a map")
    if not has_expressions:
        raise invalid(f"{label} can only be specified when using expressions")
    if not entries:
        raise invalid(f"{label} must not be empty")
    for name in entries:
        if not re.fullmatch(rf"{sign}[A-Za-z0-9_]+", name):
            raise invalid(f'{label} contains invalid key: Syntax error; key: "{name}"')
    return entries
