"""What a stream does about records that expired before they were delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from shardline.core.checkpoints import position_to_json
from shardline.core.positions import After, Position
from shardline.errors import ConfigurationError, GapError

if TYPE_CHECKING:
    from datetime import datetime

OnGap = Literal["fail", "go_on"]


@dataclass(frozen=True, slots=True)
class Gap:
    """Records of one shard that expired undelivered, or may have."""

    shard_id: str
    position: Position
    """The consumer's position in the shard: the lost records came after it."""
    since: datetime | None
    """The service's time up to which certainly nothing is lost."""

    def __str__(self) -> str:
        return f"{self.shard_id} at {_describe(self.position)}" + (
            f": whatever arrived there after {self.since.isoformat()} and is no longer kept"
            if self.since
            else ": the service no longer has this shard"
        )


class GapPolicy:
    """Raises a `GapError` at the first gap, or records each gap and lets reading go on."""

    def __init__(self, on_gap: OnGap, stream_name: str, gaps: list[Gap]) -> None:
        if on_gap not in get_args(OnGap):
            raise ConfigurationError(f'on_gap={on_gap!r}: pass "fail" or "go_on"')
        self._goes_on: Final = on_gap == "go_on"
        self._stream_name = stream_name
        self._gaps = gaps
        self._failed: Gap | None = None

    def report(self, gap: Gap) -> None:
        """Record the gap, or raise a `GapError`, by the policy."""
        if not self._goes_on:
            self._failed = gap
            self.raise_if_failed()
        self._gaps.append(gap)

    def raise_if_failed(self) -> None:
        """Raise the same `GapError` again: reading on by accident would be a silent gap."""
        if self._failed is not None:
            raise GapError(
                f"{self._stream_name}: records were lost in {self._failed}. move_to(…) elsewhere, "
                'or open the stream at its token with on_gap="go_on" to accept that'
            )


def _describe(position: Position) -> str:
    match position:
        case After(sequence):
            return f"sequence number {sequence}"
        case _:
            return str(position_to_json(position))
