"""The state of one account: its streams, limits, faults and settings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shardline.local import parameters
from shardline.local.faults import Faults
from shardline.local.kinesis.streams import ARN_PREFIX, Mode, Stream
from shardline.local.limits import Limits
from shardline.local.refusals import Refusal
from shardline.local.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
_ARN = re.compile(r"arn:aws[^:]*:kinesis:[^:]*:\d{12}:stream/(\S+)")


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
        stream = self._streams.get(name)
        if stream is not None and stream.deleted_ms is not None and stream.deleted_ms <= now_ms:
            del self._streams[name]
            stream = None
        if stream is None:
            raise Refusal(
                "ResourceNotFoundException",
                f"Stream {name} under account 000000000000 not found.",
            )
        stream.advance_to(now_ms)
        return stream

    def find_requested(self, request: dict[str, Any], now_ms: int) -> Stream:
        """Return the stream given by StreamName or StreamARN, or raise `Refusal`."""
        name = parameters.text(request, "StreamName", required=False)
        arn = parameters.text(request, "StreamARN", required=False)
        if arn is not None:
            arn_name = _name_in(arn)
            if name not in (None, arn_name):
                raise Refusal(
                    "InvalidArgumentException", f"StreamName {name} does not match {arn}."
                )
            name = arn_name
        if name is None:
            raise Refusal("InvalidArgumentException", "Either StreamName or StreamARN is required.")
        return self.find(name, now_ms)

    def find_created(self, request: dict[str, Any], now_ms: int) -> Stream:
        """Return the requested stream, or raise `Refusal` if it has no shards yet."""
        stream = self.find_requested(request, now_ms)
        if stream.status == "CREATING":
            raise Refusal("ResourceNotFoundException", f"Stream {stream.name} is being created.")
        return stream

    def create(self, name: str, mode: Mode, shard_count: int, now_ms: int) -> Stream:
        """Create a stream, or raise `Refusal`."""
        if not _NAME.fullmatch(name):
            raise Refusal(
                "ValidationException",
                f"StreamName {name[:140]!r} must be 1 to 128 of the characters a-zA-Z0-9_.-",
            )
        if any(stream.name == name for stream in self.streams(now_ms)):
            raise Refusal(
                "ResourceInUseException",
                f"Stream {name} under account 000000000000 already exists.",
            )
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

    def change(self, stream: Stream, now_ms: int, effect: Callable[[int], None]) -> None:
        """Apply an effect to an ACTIVE stream after the status delay."""
        stream.require_active()
        stream.schedule("UPDATING", now_ms + self.settings.status_delay_ms, effect)
        stream.advance_to(now_ms)


def _name_in(arn: str) -> str:
    match = _ARN.fullmatch(arn)
    if match is None:
        raise Refusal("ValidationException", f"{arn[:140]!r} is not the ARN of a stream.")
    if arn != ARN_PREFIX + match[1]:
        raise Refusal("ResourceNotFoundException", f"Stream {arn} not found.")
    return match[1]
