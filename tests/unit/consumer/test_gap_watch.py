"""The age of a consumer's place in a shard of DynamoDB Streams, which never names its tip."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.consumer.gap_watch import GapWatch
from shardline.core.positions import TRIM_HORIZON
from shardline.errors import ServiceError
from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.services.cursor import ShardCursor
from shardline.services.steps import run
from tests.twins.dynamodb_streams import DynamoDBTwin

if TYPE_CHECKING:
    from shardline.services.port import Page

START = datetime(2026, 11, 16, 12, tzinfo=UTC)


class World:
    """A shard that a consumer reads."""

    def __init__(self) -> None:
        self.clock = Clock(START)
        self.tables = Tables(self.clock)
        [self.shard_id] = self.tables.create_table("users").shards
        self.service = DynamoDBTwin(self.tables, "users")
        self.watch = GapWatch(self.service, self.shard_id, TRIM_HORIZON, START, lambda: 0.0)
        self._cursor = ShardCursor(self.service, self.shard_id, TRIM_HORIZON)

    def put(self) -> None:
        self.tables.put_change("users", {"id": {"S": "a"}}, new={"id": {"S": "a"}})

    def read(self) -> Page:
        page = self._cursor.read(10)
        assert run(self.watch.before_page(page)) is None
        self.watch.after_page(page, closed=False)
        return page


def test_the_age_moves_with_the_records_of_a_table() -> None:
    world = World()
    world.clock.advance(3600)
    world.put()
    assert world.read().records.num_rows == 1
    assert world.watch.as_of == START + timedelta(hours=1)


@pytest.mark.case("X-24")
def test_a_quiet_table_has_no_gap_after_a_day_of_reading() -> None:
    world = World()
    world.put()
    world.read()
    for _ in range(30 * 60):
        world.clock.advance(60)
        world.read()
    assert world.watch.as_of is not None
    assert world.clock.now() - world.watch.as_of < timedelta(minutes=10)


@pytest.mark.case("X-04")
def test_an_empty_answer_about_a_kept_record_is_no_gap() -> None:
    world = World()
    world.put()
    page = world.read()
    world.watch.as_of = START - timedelta(days=2)  # the age says that it may have expired
    read, empty_pages = world.service.read, iter([True])

    def with_an_empty_page(iterator: str, max_records: int) -> Page:
        found = read(iterator, max_records)
        if next(empty_pages, False):
            return replace(found, records=found.records.slice(0, 0), next_iterator=iterator)
        return found

    world.service.read = with_an_empty_page  # type: ignore[method-assign]
    assert run(world.watch.before_page(page)) is None


@pytest.mark.case("L-18")
def test_a_page_of_a_stream_that_was_made_again_is_refused() -> None:
    """A shard of the same name may have other parents there, which are not read yet."""
    world = World()
    world.put()
    page = ShardCursor(world.service, world.shard_id, TRIM_HORIZON).read(10)
    before = START - timedelta(days=1)
    watch = GapWatch(world.service, world.shard_id, TRIM_HORIZON, START, lambda: 0.0, before)
    with pytest.raises(ServiceError, match="made again"):
        run(watch.before_page(page))
