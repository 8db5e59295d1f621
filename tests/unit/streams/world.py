"""A table's stream in memory, a time that moves when told, and a count of what a stream asks."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.services.pace import UNPACED
from shardline.streams.stream import Stream
from tests.twins.dynamodb_streams import DynamoDBTwin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardline.core.positions import Position
    from shardline.services.port import Page, StreamService

START = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Watched:
    """A service whose calls are counted, and whose pages a test may change."""

    def __init__(self, service: StreamService, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self.empty_answer_seconds = 0.5
        """How long an answer without records takes: only time tells that there is nothing more."""
        self.calls: Counter[str] = Counter()
        self.change_page: Callable[[str, Page], Page] = lambda _, page: page
        self.opened: list[str] = []
        self._shard_of: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def list_shards(self) -> Any:
        self.calls["list_shards"] += 1
        return self._service.list_shards()

    def open(self, shard_id: str, position: Position) -> str:
        self.calls["open"] += 1
        self.opened.append(shard_id)
        iterator = self._service.open(shard_id, position)
        self._shard_of[iterator] = shard_id
        return iterator

    def read(self, iterator: str, max_records: int) -> Page:
        self.calls["read"] += 1
        shard_id = self._shard_of[iterator]
        page = self.change_page(shard_id, self._service.read(iterator, max_records))
        if page.next_iterator is not None:
            self._shard_of[page.next_iterator] = shard_id
        if not page.records.num_rows and page.behind_ms is None:
            self._clock.advance(self.empty_answer_seconds)
        return page


class World:
    """A table `users` and its clock, which is also the consumer's."""

    def __init__(self, shards: int = 1) -> None:
        self.clock = Clock(START)
        self.tables = Tables(self.clock)
        self.roots = self.tables.create_table("users", shards=shards).shards
        self.service = Watched(DynamoDBTwin(self.tables, "users"), self.clock)

    def put(self, name: str, shard: str | None = None, hours_ago: float | None = None) -> str:
        """Write a change of the item `name`; returns its sequence number."""
        keys = {"id": {"S": name}}
        at = None if hours_ago is None else self.clock.now() - timedelta(hours=hours_ago)
        return self.tables.put_change("users", keys, new=keys, shard=shard, at=at).sequence_number

    def split(self, shard: str) -> list[str]:
        return self.tables.split("users", shard).children

    def roll(self, shard: str) -> str:
        return self.tables.roll("users", shard).children[0]

    def seconds(self) -> float:
        return self.clock.now_ms() / 1000

    def stream(self, position: str | datetime | Mapping[str, Any], **options: Any) -> Stream[Any]:
        """Open a stream that does everything in this thread."""
        return Stream(
            self.service,
            position,
            connections=1,
            quota=UNPACED,
            clock=self.seconds,
            **options,
        )


def names(stream: Stream[Any], count: int | None = None) -> list[str]:
    """Take records until there is none, or so many; returns the items that they are about."""
    taken: list[str] = []
    while count is None or len(taken) < count:
        record = next(stream)
        if record is None:
            break
        taken.append(record.keys["id"]["S"])
    return taken
