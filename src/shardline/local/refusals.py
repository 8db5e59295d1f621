"""Error answers of the embedded service, by the exception names of AWS."""

from __future__ import annotations

from typing import Any, Protocol


class Refusal(Exception):
    """An error answer: AWS's exception name, a message and the HTTP status."""

    def __init__(self, name: str, message: str, status: int = 400) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message
        self.status = status


class Backend(Protocol):
    """One service behind the HTTP server: operations on its state, without I/O."""

    target_prefix: str
    """The prefix of X-Amz-Target, including the dot: "Kinesis_20131202."."""

    def call(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Execute one operation and return the response body as JSON, or raise `Refusal`."""
