"""What the HTTP server needs of a service: its operations, and what is true of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.kinesis.subscriptions import Subscription


class Backend(ABC):
    """One service behind the HTTP server: operations on its state, without I/O."""

    target_prefix: ClassVar[str]
    """The prefix of X-Amz-Target, including the dot: "Kinesis_20131202."."""

    @abstractmethod
    def call(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Execute one operation and return the response body as JSON, or raise `Refusal`."""

    def call_cbor(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Execute one operation for a client that uses CBOR."""
        raise Refusal("SerializationException", "CBOR is not supported here: send JSON")

    def subscription(
        self, operation: str, request: dict[str, Any], now_ms: int
    ) -> Subscription | None:
        """Start the subscription that an operation asks for; None for other operations."""
        return None

    def control(self, operation: str, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Execute one operation of the control API."""
        raise Refusal("UnknownOperationException", "there is no such control call")

    def knows(self, operation: str) -> bool:
        """Return true if the service has the operation."""
        return True

    def has_effect(self, operation: str) -> bool:
        """Return true unless the operation only reads."""
        return True

    def shard_of(self, operation: str, request: dict[str, Any]) -> str | None:
        """Return the shard of a call, or None if it does not concern exactly one."""
        shard_id = request.get("ShardId")
        return shard_id if isinstance(shard_id, str) else None
