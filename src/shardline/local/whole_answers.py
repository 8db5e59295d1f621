"""Makes a boto3 client notice an answer that was cut.

boto3 takes an answer that ends in mid-body for a whole one without members.
"""

from __future__ import annotations

from typing import Any, Final

_ATTEMPTS: Final = 5


def repeat_cut_answers(client: Any) -> None:
    """Make a client repeat a call whose answer is incomplete. A second call has no effect."""
    client.meta.events.register(
        "needs-retry.*", _pause_before_retry, unique_id="shardline-cut-answers"
    )


def _pause_before_retry(response: Any, attempts: int, **_: Any) -> float | None:
    """Return the pause before the call is repeated, or None if its answer is whole."""
    if response is None or attempts > _ATTEMPTS:
        return None
    http, _parsed = response
    length = http.headers.get("Content-Length")
    return 0.0 if length is not None and len(http.content) < int(length) else None
