"""An HTTP session that gives answers which a test chose, and the signatures that it should see."""

from __future__ import annotations

from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.credentials import Credentials

KEY, SECRET, REGION = "key", "secret", "eu-west-1"
DATE = "Sun, 15 Nov 2026 12:00:00 GMT"


class Answer:
    """What urllib3 hands out."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> list[bytes]:
        return [self._body]


class Session:
    """An HTTP session that answers with the next of its answers, and keeps what was sent."""

    def __init__(self, *answers: tuple[int, bytes, int]) -> None:
        self.answers = list(answers)
        self.sent: list[Any] = []
        self.built: list[str] = []
        """The operations of which botocore built a request, where a test notes them."""

    def send(self, request: Any) -> AWSResponse:
        self.sent.append(request)
        status, body, promised = self.answers.pop(0)
        headers = {"content-length": str(promised), "date": DATE}
        return AWSResponse(request.url, status, headers, Answer(body))

    def close(self) -> None:
        """No-op: there are no connections."""


def signature_of(request: Any) -> str:
    """Return the signature that a sent request should have."""
    signed = ("x-amz-target", "content-type", "x-amz-date")
    headers = {name: text(request.headers[name]) for name in signed}
    made = AWSRequest("POST", request.url, headers, request.body)
    made.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(KEY, SECRET), "kinesis", REGION)
    return str(auth.signature(auth.string_to_sign(made, auth.canonical_request(made)), made))


def text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
