"""The state of one account: its streams, limits, faults and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shardline.local.faults import Faults
from shardline.local.kinesis.shards import ShardLog, shard_id_of
from shardline.local.kinesis.streams import ARN_PREFIX, Mode, Stream, parse_shard_index
from shardline.local.limits import Limits
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID, REGION, Settings


@dataclass
class Account:
    """The state on which the Kinesis operations act."""

    faults: Faults = field(default_factory=Faults)
    limits: Limits = field(default_factory=Limits)
    settings: Settings = field(default_factory=Settings)
    keeps_written: bool = False
    written: list[tuple[str, int, int, int, bytes]] = field(default_factory=list)
    """New records for the journal: stream, shard index, tick, size in bytes, fragment."""
    _streams: dict[str, Stream] = field(default_factory=dict)
    _last_created_ms: dict[str, int] = field(default_factory=dict)

    def streams(self, now_ms: int) -> list[Stream]:
        """Return the streams that exist now, sorted by name."""
        for stream in list(self._streams.values()):
            if stream.deleted_ms is not None and stream.deleted_ms <= now_ms:
                del self._streams[stream.name]
            else:
                stream.advance_to(now_ms)
        return [self._streams[name] for name in sorted(self._streams)]

    def find(self, name: str, now_ms: int) -> Stream:
        """Return a stream by name, or raise `Refusal`."""
        stream = self._existing(name, now_ms)
        if stream is None:
            raise stream_not_found(name)
        return stream

    def _existing(self, name: str, now_ms: int) -> Stream | None:
        stream = self._streams.get(name)
        if stream is not None and stream.deleted_ms is not None and stream.deleted_ms <= now_ms:
            del self._streams[name]
            return None
        if stream is not None:
            stream.advance_to(now_ms)
        return stream

    def find_requested(self, request: dict[str, Any], now_ms: int) -> Stream:
        """Return the stream given by StreamName or StreamARN, or raise `Refusal`."""
        return self.find(requested_name(request), now_ms)

    def find_created(self, request: dict[str, Any], now_ms: int) -> Stream:
        """Return the requested stream, or raise `Refusal` if it takes no records now."""
        stream = self.find_requested(request, now_ms)
        if not stream.shards or stream.status == "DELETING":
            raise stream_not_found(stream.name)
        return stream

    def find_shard(self, stream_name: str, shard_id: str, now_ms: int) -> tuple[Stream, ShardLog]:
        """Return a shard to read. The refusal names the shard also if the stream is missing."""
        index = parse_shard_index(shard_id, stream_name)
        stream = self._existing(stream_name, now_ms)
        shard = None if stream is None else stream.shard_at(index)
        if stream is None or shard is None:
            raise Refusal(
                "ResourceNotFoundException",
                f"Shard {shard_id_of(index)} in stream {stream_name} under account {ACCOUNT_ID} "
                "does not exist",
            )
        return stream, shard

    def create(self, name: str, mode: Mode, shard_count: int, now_ms: int) -> Stream:
        """Create a stream, or raise `Refusal`."""
        streams = self.streams(now_ms)
        if any(stream.name == name for stream in streams):
            raise Refusal(
                "ResourceInUseException",
                f"Stream {name} under account {ACCOUNT_ID} already exists.",
            )
        self.require_room(shard_count, now_ms)
        # A stream created again differs from its predecessor in its creation time, even if both
        # were created within one millisecond.
        created_ms = max(now_ms, self._last_created_ms.get(name, 0) + 1)
        self._last_created_ms[name] = created_ms
        active_ms = now_ms + self.settings.status_delay_ms
        stream = Stream(name, mode, shard_count, created_ms, active_ms)
        self._streams[name] = stream
        stream.advance_to(now_ms)
        return stream

    def delete(self, stream: Stream, now_ms: int) -> None:
        """Delete a stream after the status delay."""
        stream.status = "DELETING"
        stream.deleted_ms = now_ms + self.settings.status_delay_ms

    def change(self, stream: Stream, now_ms: int, effect: Callable[[int], object]) -> None:
        """Apply an effect to an ACTIVE stream after the status delay."""
        stream.require_active()
        stream.schedule("UPDATING", now_ms + self.settings.status_delay_ms, effect)
        stream.advance_to(now_ms)

    def require_room(self, more_shards: int, now_ms: int) -> None:
        """Raise `Refusal` if more shards would exceed the limit of the account."""
        count = sum(stream.requested_shards() for stream in self.streams(now_ms))
        if count + more_shards > self.settings.shard_limit:
            raise Refusal(
                "LimitExceededException",
                f"This request would exceed the shard limit for the account {ACCOUNT_ID} in "
                f"{REGION}. Current shard count for the account: {count}. Limit: "
                f"{self.settings.shard_limit}. Number of additional shards that would have "
                f"resulted from this request: {more_shards}. Refer to the AWS Service Limits page "
                "(http://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) for "
                "current limits and how to request higher limits.",
            )


def requested_name(request: dict[str, Any]) -> str:
    """Return the name of the stream given by StreamName or StreamARN, or raise `Refusal`."""
    name: str | None = request.get("StreamName")
    arn: str | None = request.get("StreamARN")
    if arn is not None:
        arn_name = arn.removeprefix(ARN_PREFIX)
        if arn_name == arn or "/" in arn_name:
            raise Refusal("ResourceNotFoundException", f"Stream {arn} not found.")
        if name not in (None, arn_name):
            raise Refusal("InvalidArgumentException", f"StreamName {name} does not match {arn}.")
        return arn_name
    if name is None:
        raise Refusal("InvalidArgumentException", "Either StreamName or StreamARN is required.")
    return name


def stream_not_found(name: str) -> Refusal:
    """Return the refusal for a stream that does not exist."""
    return Refusal(
        "ResourceNotFoundException", f"Stream {name} under account {ACCOUNT_ID} not found."
    )
