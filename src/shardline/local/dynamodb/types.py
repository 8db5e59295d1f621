"""Types of the members of a request, by botocore's own description of DynamoDB."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import botocore.session

from shardline.local.refusals import Refusal

_PLAIN: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "blob": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "long": (int, float),
    "float": (int, float),
    "double": (int, float),
    "timestamp": (int, float),
}


def typed(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a request without members that are null. Raises `Refusal` where a type is wrong."""
    shape = _model().operation_model(operation).input_shape
    return request if shape is None else _typed(shape, request)


@lru_cache(maxsize=1)
def _model() -> Any:
    return botocore.session.Session().get_service_model("dynamodb")


def _typed(shape: Any, value: Any) -> Any:
    if shape.name == "AttributeValue":  # `values` checks these
        return value
    match shape.type_name, value:
        case "structure", dict():
            return {
                name: _typed(shape.members[name], each) if name in shape.members else each
                for name, each in value.items()
                if each is not None
            }
        case "map", dict():
            return {name: _typed(shape.value, each) for name, each in value.items()}
        case "list", list():
            return [_typed(shape.member, each) for each in value]
        case kind, _ if isinstance(value, _PLAIN.get(kind, ())):
            if kind == "boolean" or not isinstance(value, bool):
                return value
    raise Refusal("SerializationException", "Unexpected value type in payload")
