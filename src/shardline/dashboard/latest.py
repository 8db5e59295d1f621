"""The latest snapshot as JSON, marked as stale when it is too old to be called live."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.observation.snapshot import Snapshot


class LatestSnapshot:
    """Holds the latest snapshot. Thread-safe.

    A snapshot that is older than `stale_seconds` is never returned without a notice of its age:
    the thread that takes snapshots may hang in a call, and a page must not show that as live.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        stale_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stale_seconds = stale_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failure = ""
        self.put(snapshot)

    def put(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""
        plain = snapshot.to_json()
        fresh = _to_json(plain, plain["notice"], with_payloads=False)  # once for all listeners
        with self._lock:
            self._plain, self._fresh = plain, fresh
            self._taken_at, self._failure = self._clock(), ""

    def fail(self, reason: str) -> None:
        """Mark the snapshot as stale at once: the attempt to take a new one has failed."""
        with self._lock:
            self._failure = reason

    def text(self, *, with_payloads: bool) -> str:
        """Return the snapshot as JSON, without payloads unless they are asked for."""
        with self._lock:
            plain, fresh, failure = self._plain, self._fresh, self._failure
            age = self._clock() - self._taken_at
        notice = plain["notice"] or failure
        if not notice and age > self._stale_seconds:
            notice = f"the last observation was {age:.0f} s ago"
        if notice == plain["notice"] and not with_payloads:
            return fresh
        return _to_json(plain, notice, with_payloads=with_payloads)


def _to_json(plain: dict[str, Any], notice: str, *, with_payloads: bool) -> str:
    shown = plain | {"notice": notice, "payloads": with_payloads}
    if not with_payloads:
        shown["dead_letters"] = [letter | {"payload": ""} for letter in plain["dead_letters"]]
    return json.dumps(shown, separators=(",", ":"))
