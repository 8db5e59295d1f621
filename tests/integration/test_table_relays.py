"""Two workers behind relays: whatever a connection to the lease table meets, the promises hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.test_relays import pair
from tests.servers.relay import FATES

if TYPE_CHECKING:
    from tests.integration.relay_cells import WorkerPair

__all__ = ["pair"]


@pytest.mark.req("K-11", "O-01")
@pytest.mark.case("W-05", "W-06", "X-28")
@pytest.mark.parametrize("fate", FATES)
def test_workers_whose_connections_meet_a_fate_keep_the_promises_recover_and_stop(
    pair: WorkerPair, fate: str
) -> None:
    assert pair.strike("table", fate).verdict.kept
