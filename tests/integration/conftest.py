"""What several files of this folder need: an embedded service whose clock the test advances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardline.local import Clock, Service
from tests.integration.kinesis_calls import START

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def service() -> Iterator[Service]:
    # Not strict: its clock stands still, and a stream would never be active.
    with Service(clock=Clock(START)) as service:
        yield service
