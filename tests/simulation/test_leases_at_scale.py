"""Many shards on few workers in virtual time: every shard has an owner within two lease times."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from bench.leasing_fleet import TIMES, Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SECONDS = 2 * TIMES.lease_seconds


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.case("X-25")
@pytest.mark.parametrize("how", ["killed", "left"])
def test_a_newcomer_that_asks_for_hundreds_takes_all_when_the_only_other_goes(how: str) -> None:
    fleet = Fleet(shards=900, workers=1, busy=False)
    fleet.run_until_owned(60)
    fleet.join()
    fleet.run_until(fleet.now + 9)
    asked = max(len(beat.asks) for beat in fleet.table.read_heartbeats("app", "orders"))
    assert asked == 100, "it asks for many at a time, but not for so many that a heartbeat is large"
    if how == "left":
        fleet.leave(0)
    else:
        fleet.dead.add(0)
    assert fleet.run_until_owned(60) <= MOST_SECONDS


@pytest.mark.case("X-25")
def test_no_join_kill_or_leave_costs_one_of_5000_shards_its_owner_for_two_lease_times() -> None:
    fleet = Fleet(shards=5_000, workers=20, busy=False)
    assert fleet.run_until_owned(60) <= MOST_SECONDS
    fleet.join()
    assert fleet.longest_unowned(15) <= MOST_SECONDS
    fleet.dead.add(1)
    assert fleet.longest_unowned(25) <= MOST_SECONDS
    fleet.leave(2)
    assert fleet.longest_unowned(25) <= MOST_SECONDS
    assert fleet.owned()


def test_what_a_leaving_worker_releases_is_known_at_once() -> None:
    fleet = Fleet(shards=1_000, workers=6, busy=False)
    fleet.run_until_settled(60)
    fleet.leave(2)
    assert fleet.run_until_owned(60) <= TIMES.lease_seconds / 2
