"""Whether a shard or its stream is missing: both services refuse the two in the same words."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_BELIEVED_SECONDS: Final = 2.0


class StreamPresence:
    """Asks whether the stream exists, once for many shards that are not found."""

    def __init__(
        self, describe: Callable[[], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._describe = describe
        self._clock = clock
        self._seen_at = float("-inf")

    def require(self) -> None:
        """Raise `StreamNotFound` if the stream is not there; a recent answer is believed."""
        now = self._clock()
        if now - self._seen_at >= _BELIEVED_SECONDS:
            self._describe()
            self._seen_at = now
