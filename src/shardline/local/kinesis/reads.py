"""What was read of a shard, for whoever wants to know how near a reader is to the limits."""

from __future__ import annotations

from typing import Any


class Reads:
    """Counts the answers, polled and pushed, and the reads that the limits refused."""

    __slots__ = (
        "answers", "first_ms", "free_ms", "last_ms", "limited_ms", "records", "refused",
        "size_bytes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.answers = self.refused = self.records = self.size_bytes = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.limited_ms: int | None = None
        self.free_ms: int | None = None

    def add(self, records: int, size_bytes: int, now_ms: int, *, free_ms: int) -> None:
        """Count an answer. At `free_ms` the limits allow the next read."""
        self.answers += 1
        if records:
            self.records += records
            self.size_bytes += size_bytes
            self.first_ms = now_ms if self.first_ms is None else self.first_ms
            self.last_ms, self.free_ms = now_ms, free_ms
            if free_ms > now_ms and self.limited_ms is None:
                self.limited_ms = now_ms

    def described(self, shard_id: str) -> dict[str, Any]:
        """Return the counts as the control API shows them."""
        return {
            "ShardId": shard_id,
            "Answers": self.answers,
            "Refused": self.refused,
            "Records": self.records,
            "Bytes": self.size_bytes,
            "FirstMs": self.first_ms,
            "LastMs": self.last_ms,
            "LimitedMs": self.limited_ms,
            "FreeMs": self.free_ms,
        }
