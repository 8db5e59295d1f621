"""PutRecords requests of one client: the first is botocore's, the others are copies of it.

A key has one record in all calls under way, so a writer of few keys makes many small calls, and
what botocore does for each call costs more than the records. Only the body, the date and the
signature differ from call to call. So botocore makes the first request, with endpoint, headers and
signing context; the others are signed by its signer, which renews credentials, and sent by its HTTP
session, with the same connections, proxies and deadlines.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from botocore.parsers import create_parser

from shardline.services.put.body import decode_put
from shardline.services.wire.handler import answer_in, decode_answer, decode_answers_with

_OPERATION: Final = "PutRecords"
_BODY: Final = "shardline_body"
_STAND_IN: Final = [{"Data": b"", "PartitionKey": "-"}]
"""What botocore checks and encodes instead of the records."""
_OK: Final = 200


class _Template(NamedTuple):
    """A request before its signature, and its signer."""

    url: str
    headers: dict[str, str]
    context: dict[str, Any]
    signer: Any


class PutClient:
    """Makes the PutRecords calls of a botocore client, for `Calls`. For use by several threads."""

    def __init__(self, client: Any, stream: dict[str, Any]) -> None:
        self.meta = client.meta
        self._client = client
        self._stream = stream
        self._session = client._endpoint.http_session  # noqa: SLF001 - botocore has no other way in
        self._parser = create_parser("json")
        self._template: _Template | None = None
        events = client.meta.events
        events.register(f"before-parameter-build.kinesis.{_OPERATION}", _keep_body)
        events.register(f"before-call.kinesis.{_OPERATION}", _replace_body)
        events.register(f"before-sign.kinesis.{_OPERATION}", self._keep_template)
        decode_answers_with({_OPERATION: decode_put}, client)

    def put_records(self, *, body: bytes) -> dict[str, Any]:
        """Send a body, and return what the answer says about each entry as `Results`.

        Raises what botocore raises.
        """
        template = self._template
        if template is None:
            response = self._client.put_records(**self._stream, Records=body)
            return {"Results": answer_in(response)}
        request = AWSRequest("POST", template.url, template.headers, body)
        request.context.update(template.context)
        template.signer.sign(_OPERATION, request)
        answer = self._session.send(request.prepare())
        parts = {
            "status_code": answer.status_code,
            "headers": answer.headers,
            "body": answer.content,
        }
        if answer.status_code != _OK:
            raise ClientError(self._parser.parse(parts, None), _OPERATION)
        return {"Results": decode_answer(decode_put, parts)}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _keep_template(self, request: Any, request_signer: Any, **_: Any) -> None:
        if self._template is None:
            headers = dict(request.headers.items())
            context = {name: each for name, each in request.context.items() if name != _BODY}
            self._template = _Template(request.url, headers, context, request_signer)


def _keep_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    context[_BODY] = params["Records"]
    params["Records"] = _STAND_IN


def _replace_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    params["body"] = context[_BODY]
