"""Requests of one operation of a client: the first is botocore's, the others are copies of it.

What botocore does for each call, from its rules for endpoints to its hooks, costs more than the
records of a small one. Only the body, the date and the signature differ from call to call. So
botocore makes the first request, with endpoint, headers and signing context; the others are signed
by its signer, which renews credentials, and sent by its HTTP session, with the same connections,
proxies and deadlines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from botocore.parsers import create_parser

from shardline.services.cbor_client import in_json
from shardline.services.wire.handler import as_response, decode_answer, decode_answers_with

if TYPE_CHECKING:
    from collections.abc import Callable

OURS: Final = "shardline_"
"""What the names begin with that we put into the context of a request."""
_OK: Final = 200


class _Template(NamedTuple):
    """A request before its signature, and its signer."""

    url: str
    headers: dict[str, str]
    context: dict[str, Any]
    signer: Any


class RepeatedRequests:
    """Sends the requests of one operation of a botocore client. For use by several threads."""

    def __init__(self, client: Any, operation: str, decode: Callable[[bytes], Any]) -> None:
        self._session = client._endpoint.http_session  # noqa: SLF001 - botocore has no other way in
        self._operation = operation
        self._decode = decode
        self._parser = create_parser("json")
        self._template: _Template | None = None
        service_id = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register(f"before-sign.{service_id}.{operation}", self._keep_template)
        decode_answers_with({operation: decode}, client)

    def send(self, body: bytes, first: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Send a body, and return an answer for `answer_in`. Raises what botocore raises.

        `first` is botocore's own call, made while there is no request to repeat.
        """
        template = self._template
        if template is None:
            return first()
        request = AWSRequest("POST", template.url, template.headers, body)
        request.context.update(template.context)
        template.signer.sign(self._operation, request)
        answer = self._session.send(request.prepare())
        parts = {
            "status_code": answer.status_code,
            "headers": answer.headers,
            "body": answer.content,
        }
        if answer.status_code != _OK:
            parts["body"] = in_json(answer.content)
            raise ClientError(self._parser.parse(parts, None), self._operation)
        return as_response(decode_answer(self._decode, parts), answer.headers)

    def _keep_template(self, request: Any, request_signer: Any, **_: Any) -> None:
        if self._template is None:
            context = {k: v for k, v in request.context.items() if not k.startswith(OURS)}
            headers = dict(request.headers.items())
            self._template = _Template(request.url, headers, context, request_signer)
