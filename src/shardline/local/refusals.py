"""How the embedded service says no: the exception names of the service that it stands for."""

from __future__ import annotations

from typing import Any, Protocol


class Refusal(Exception):
    """An answer that is an exception to the caller, by the service's own name for it."""

    def __init__(self, name: str, message: str, status: int = 400) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message
        self.status = status


class Backend(Protocol):
    """One service behind the HTTP server: its operations over its state, with no I/O of its own."""

    target_prefix: str
    """What X-Amz-Target starts with, the dot included: "Kinesis_20131202."."""

    def call(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Carry out one operation and return the response body as JSON, or raise `Refusal`."""
