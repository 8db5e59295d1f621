"""An answer is whole or it is an error to retry: checked here, for every client that we make.

botocore accepts a body that was cut, and takes one that is no JSON for an empty answer. So each
answer of status 200 is checked before botocore parses it. The answers of a stream are decoded here
as well: botocore's own parser never sees a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from botocore.exceptions import HTTPClientError

from shardline.services.wire import cbor

_ANSWER: Final = "ShardlineAnswer"
_OK: Final = 200
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ALWAYS: Final = {
    "BatchGetItem": "Responses",
    "DescribeStreamConsumer": "ConsumerDescription",
    "DescribeTable": "Table",
    "ListStreamConsumers": "Consumers",
    "PutRecords": "Records",
    "Query": "Items",
    "Scan": "Items",
}
"""What an answer to these operations always has."""
_NULL: Final = b"null"
_FIRST_BYTES: Final = {"list": b"[", "map": b"{", "structure": b"{"}
_SHOWN: Final = 40
"""How many bytes of a body that is no answer are shown."""


class IncompleteAnswer(HTTPClientError):  # type: ignore[misc] # botocore publishes no types
    """The service sent an answer of status 200 that is cut, garbled or lacks what it must have."""

    fmt = "{error}"


def require_whole_answers(client: Any) -> None:
    """Make a client raise `IncompleteAnswer` for an answer that is cut, or is not one at all.

    An empty object is accepted where the operation has such answers: DynamoDB answers so for an
    item that is not there.
    """
    model = client.meta.service_model
    # botocore before 1.36 knows one protocol for each service.
    is_json = getattr(model, "resolved_protocol", model.metadata["protocol"]) == "json"

    def check(
        operation_model: Any,
        response_dict: dict[str, Any],
        customized_response_dict: dict[str, Any],
        **_: Any,
    ) -> None:
        if response_dict["status_code"] != _OK or _ANSWER in customized_response_dict:
            return
        _require_length(response_dict)
        shape = operation_model.output_shape
        if not is_json or shape is None or cbor.is_cbor_map(response_dict["body"]):
            return
        members = _decode(_members, response_dict["body"])
        if members and shape.members.keys().isdisjoint(members):
            raise IncompleteAnswer(error=f"not an answer: it has only {', '.join(members)}")
        _require_members(operation_model, shape, members)

    # First, so that it sees the body as it came, and after the decoders of single operations.
    client.meta.events.register_first(f"before-parse.{_service_id(client)}", check)


def decode_answers_with(decoders: Mapping[str, Callable[[bytes], Any]], client: Any) -> None:
    """Make a client decode the answers to these operations; `answer_in` returns what came out.

    A decoder raises `msgspec.DecodeError` for a body that is not the answer it should be.
    """
    for operation, decode in decoders.items():
        event = f"before-parse.{_service_id(client)}.{operation}"
        client.meta.events.register(event, _decoding(decode))


def answer_in(response: dict[str, Any]) -> Any:
    """Return what the client's decoder made of the body."""
    return response[_ANSWER]


def as_response(answer: Any, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the response of a client to a call whose answer was decoded without it."""
    return {_ANSWER: answer, "ResponseMetadata": {"HTTPStatusCode": _OK, "HTTPHeaders": headers}}


def decode_answer(decode: Callable[[bytes], Any], response_dict: dict[str, Any]) -> Any:
    """Return what a decoder makes of an answer of status 200. Raises `IncompleteAnswer`."""
    _require_length(response_dict)
    return _decode(decode, response_dict["body"])


def _service_id(client: Any) -> str:
    return str(client.meta.service_model.service_id.hyphenize())


def _decoding(decode: Callable[[bytes], Any]) -> Callable[..., None]:
    def take_body(
        response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
    ) -> None:
        if response_dict["status_code"] == _OK:
            customized_response_dict[_ANSWER] = decode_answer(decode, response_dict)
            response_dict["body"] = b"{}"  # for botocore to parse

    return take_body


def _require_length(response_dict: dict[str, Any]) -> None:
    """Raise if the connection ended before the body did: botocore does not look."""
    promised = response_dict["headers"].get("content-length")
    size = len(response_dict["body"])
    if promised is not None and str(promised).isdigit() and int(promised) != size:
        raise IncompleteAnswer(error=f"{size} of {promised} bytes arrived")


def _require_members(operation_model: Any, shape: Any, members: dict[str, msgspec.Raw]) -> None:
    """Raise if a member that is always there is missing, or if one is of another kind."""
    always = _ALWAYS.get(operation_model.name)
    if always is not None and _start_of(members.get(always)) == _NULL:
        raise IncompleteAnswer(error=f"not an answer: it has no {always}")
    for name in members.keys() & shape.members.keys():
        kind, start = shape.members[name].type_name, _start_of(members[name])
        if kind in _FIRST_BYTES and start[:1] != _FIRST_BYTES[kind] and start != _NULL:
            raise IncompleteAnswer(error=f"not an answer: {name} is no {kind}")


def _start_of(value: msgspec.Raw | None) -> bytes:
    """Return enough of a value to see what it is."""
    return _NULL if value is None else bytes(memoryview(value)[: len(_NULL)])


def _members(body: bytes) -> dict[str, msgspec.Raw]:
    body.decode()  # msgspec does not look into texts that it passes over
    return _OBJECT.decode(body)


def _decode(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        starts = f"it starts with {body[:_SHOWN]!r}" if body else "it is empty"
        raise IncompleteAnswer(error=f"not an answer: {error}; {starts}") from error
