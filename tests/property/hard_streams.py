"""Streams that behave as real ones do at their worst: stale machines, and pages without records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardline.core.positions import LATEST, Position
from tests.property.planning_query import World
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    from shardline.core.shards import Shard
    from shardline.services.port import Page, StreamService


class Flaky(KinesisTwin):
    """A stream of which a stale machine knows some shards not."""

    hidden: frozenset[str] = frozenset()

    def list_shards(self) -> tuple[Shard, ...]:
        return tuple(shard for shard in super().list_shards() if shard.id not in self.hidden)

    def has_shard(self, shard_id: str) -> bool:
        return shard_id not in self.hidden and super().has_shard(shard_id)


class Sparse:
    """A service that gives so many empty pages after each opening before it gives a record."""

    def __init__(self, inner: Any, pages: int) -> None:
        self._inner = inner
        self._pages = pages
        self._left: dict[str, int] = {}
        self._ids: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open(self, shard_id: str, position: Position) -> str:
        iterator: str = self._inner.open(shard_id, position)
        if not isinstance(position, type(LATEST)):
            self._left[iterator] = self._pages
        return iterator

    def read(self, iterator: str, max_records: int) -> Page:
        left = self._left.pop(iterator, 0)
        page: Page = self._inner.read(iterator, max_records)
        if not left or not page.records.num_rows:
            return page
        self._left[iterator] = left - 1
        behind = None if page.behind_ms is None else page.behind_ms + left * 1000
        return replace(
            page, records=page.records.slice(0, 0), next_iterator=iterator, behind_ms=behind
        )


class SparseWorld(World):
    """A world whose service is sparse, with records on it already."""

    def __init__(self, inner: World, pages: int) -> None:
        self._inner = inner
        self._sparse = Sparse(inner.service, pages)
        self.checker = inner.checker

    @property
    def service(self) -> StreamService:
        return self._sparse

    @property
    def clock(self) -> Any:
        return self._inner.clock
