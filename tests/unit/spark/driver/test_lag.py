"""How far a query lags, from its offset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from shardline.core.gaps import Gap
from shardline.core.offsets import Mark, Offset, Range
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber
from shardline.spark.driver.lag import lag_of

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
AT_7 = After(SequenceNumber("7"))


def test_each_unfinished_shard_lags_by_the_age_of_what_was_read_up_to() -> None:
    gap = Gap("shard-0", AT_7, NOON - timedelta(days=2), NOON - timedelta(days=1), "it expired")
    offset = Offset(
        TRIM_HORIZON,
        NOON - timedelta(days=9),
        {
            "shard-3": Range(AT_7, AT_7, NOON + timedelta(seconds=1)),
            "shard-2": Range(AT_7, AT_7, None),
            "shard-1": Range(TRIM_HORIZON, AT_7, NOON - timedelta(seconds=90)),
            "shard-0": Range(AT_7, SHARD_END, NOON),
        },
        {"shard-9": Mark(NOON, NOON)},
        (gap,),
    )
    lag = lag_of(offset, "query", "orders", batch_id=4, now=NOON)
    assert [(shard.shard_id, shard.seconds) for shard in lag.shards] == [
        ("shard-1", 90.0),
        ("shard-2", None),
        ("shard-3", 0.0),
    ]
    assert lag.shards[0].delivered == str(AT_7)
    assert lag.finished == ("shard-0", "shard-9")
    assert (lag.query_id, lag.stream, lag.batch_id, lag.gaps) == ("query", "orders", 4, (gap,))
