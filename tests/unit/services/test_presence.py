"""One description serves for many shards that are not found."""

from __future__ import annotations

import pytest

from shardline.errors import StreamNotFound
from shardline.services.presence import StreamPresence


@pytest.mark.case("Y-06")
def test_a_stream_that_was_seen_just_now_is_not_asked_for_again() -> None:
    times = [0.0, 0.5, 1.9, 2.0, 2.1]
    asked: list[str] = []
    presence = StreamPresence(lambda: asked.append("describe"), lambda: times.pop(0))
    while times:
        presence.require()
    assert len(asked) == 2


def test_a_stream_that_is_missing_is_said_every_time() -> None:
    def describe() -> None:
        raise StreamNotFound("orders")

    presence = StreamPresence(describe, lambda: 0.0)
    for _ in range(2):
        with pytest.raises(StreamNotFound):
            presence.require()
