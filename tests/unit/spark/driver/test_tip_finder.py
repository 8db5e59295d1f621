"""Looking for the tip of a shard is cheap, however long its backlog and however quiet it is now."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.planning import FORWARD_RECORDS, Look, Standpoint
from shardline.core.positions import TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber
from shardline.local.kinesis.twin import KinesisTwin
from shardline.spark.driver.tip_finder import Lookout

if TYPE_CHECKING:
    from shardline.services.port import Page

RECORDS = 20_000


class CountingTwin(KinesisTwin):
    """Counts the records that are read."""

    records_read = 0

    def read(self, iterator: str, max_records: int) -> Page:
        page = super().read(iterator, max_records)
        self.records_read += page.records.num_rows
        return page


@pytest.mark.parametrize("quiet", [timedelta(0), timedelta(minutes=1), timedelta(hours=20)])
def test_the_tip_of_a_backlog_is_found_without_reading_it(quiet: timedelta) -> None:
    service = CountingTwin()
    last = SequenceNumber("0")
    for n in range(RECORDS):
        last = service.put(f"{n}", b"x" * 100).sequence
        if n % 5 == 0:
            service.clock.advance(0.01)
    service.clock.advance(quiet.total_seconds())
    lookout = Lookout(service)
    (shard,) = service.list_shards()
    now = lookout.now(shard.id)
    look = Look(shard.id, Standpoint(TRIM_HORIZON, None), FORWARD_RECORDS, None)
    seen = lookout.look(look, until=now + timedelta(seconds=1))
    assert seen.at_tip
    assert seen.sight.upto == After(last)
    assert service.records_read < RECORDS / 2
