"""PutRecords requests of one client.

A key has one record in all calls under way, so a writer of few keys makes many small calls: they
are copies of the first (`RepeatedRequests`). Their bodies are never botocore's.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from shardline.services.put.body import decode_put
from shardline.services.repeated_requests import OURS, RepeatedRequests

_OPERATION: Final = "PutRecords"
_BODY: Final = f"{OURS}body"
_STAND_IN: Final = [{"Data": b"", "PartitionKey": "-"}]
"""What botocore checks and encodes instead of the records."""


class PutClient:
    """Makes the PutRecords calls of a botocore client, for `Calls`. For use by several threads."""

    def __init__(self, client: Any, stream: dict[str, Any]) -> None:
        self.meta = client.meta
        self._client = client
        self._stream = stream
        self._requests = RepeatedRequests(client, _OPERATION, decode_put)
        events = client.meta.events
        events.register(f"before-parameter-build.kinesis.{_OPERATION}", _keep_body)
        events.register(f"before-call.kinesis.{_OPERATION}", _replace_body)

    def put_records(self, *, body: bytes) -> dict[str, Any]:
        """Send a body, and return what the answer says about each entry, for `answer_in`.

        Raises what botocore raises.
        """
        first = partial(self._client.put_records, **self._stream, Records=body)
        return self._requests.send(body, first)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _keep_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    context[_BODY] = params["Records"]
    params["Records"] = _STAND_IN


def _replace_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    params["body"] = context[_BODY]
