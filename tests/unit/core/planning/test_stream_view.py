"""A checkpoint or token of another stream is refused in one line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.offsets import Offset
from shardline.core.planning.stream_view import StreamView
from shardline.core.positions import TRIM_HORIZON

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
VIEW = StreamView(name="orders", arn="arn:orders", created_at=NOON)


@pytest.mark.parametrize(
    ("stream", "created_at"), [(None, None), (None, NOON), ("arn:orders", NOON)]
)
def test_an_offset_of_this_stream_is_taken(stream: str | None, created_at: datetime | None) -> None:
    assert VIEW.mismatch(Offset(TRIM_HORIZON, created_at, stream=stream)) is None


@pytest.mark.case("L-18")
@pytest.mark.parametrize(
    ("stream", "created_at", "line"),
    [
        ("arn:others", NOON, "is of arn:others, and arn:orders is read"),
        ("arn:orders", NOON - timedelta(days=1), "deleted and made again"),
        (None, NOON - timedelta(days=1), "deleted and made again"),
    ],
)
def test_an_offset_of_another_stream_is_refused(
    stream: str | None, created_at: datetime, line: str
) -> None:
    error = VIEW.mismatch(Offset(TRIM_HORIZON, created_at, stream=stream))
    assert line in str(error)
    assert "\n" not in str(error)
