"""What a stream does about records that expired before they were delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from shardline.errors import ConfigurationError, GapError

if TYPE_CHECKING:
    from shardline.core.gaps import Gap

OnGap = Literal["fail", "go_on"]


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
                f"{self._stream_name}: {self._failed}. move_to(…) elsewhere, "
                'or open the stream at its token with on_gap="go_on" to accept that'
            )
