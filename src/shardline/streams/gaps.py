"""What to do about records that the service threw away before they were delivered."""

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
    """Records that were lost, or may have been: the service no longer has what lay there."""

    shard_id: str
    position: Position
    """Where the consumer stood: what is lost lay behind it."""
    since: datetime | None
    """The service's time up to which certainly nothing is lost."""

    def __str__(self) -> str:
        return f"{self.shard_id} at {_words(self.position)}" + (
            f": whatever arrived there after {self.since.isoformat()} and is no longer kept"
            if self.since
            else ": the service no longer has this shard"
        )


class GapPolicy:
    """Fails for good at a gap, or writes it down and goes on."""

    def __init__(self, on_gap: OnGap, stream_name: str, gaps: list[Gap]) -> None:
        if on_gap not in get_args(OnGap):
            raise ConfigurationError(f'on_gap={on_gap!r}: pass "fail" or "go_on"')
        self._goes_on: Final = on_gap == "go_on"
        self._stream_name = stream_name
        self._gaps = gaps
        self._failed: Gap | None = None

    def meet(self, gap: Gap) -> None:
        """Write the gap down, or raise."""
        if not self._goes_on:
            self._failed = gap
            self.check()
        self._gaps.append(gap)

    def check(self) -> None:
        """Raise again after a failure: going on by accident would be a silent gap."""
        if self._failed is not None:
            raise GapError(
                f"{self._stream_name}: records were lost in {self._failed}. move_to(…) elsewhere, "
                'or open the stream at its token with on_gap="go_on" to accept that'
            )


def _words(position: Position) -> str:
    match position:
        case After(sequence):
            return f"sequence number {sequence}"
        case _:
            return str(position_to_json(position))
