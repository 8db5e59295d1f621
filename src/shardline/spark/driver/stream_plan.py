"""The plan of one stream. Of a table, the stream may be replaced: switched off, and on again.

Then the old stream is delivered to its end first, and the new one from its beginning. The offset
names the very stream that it is of, so that a restart goes on with that one.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.offsets import Offset
from shardline.core.positions import TRIM_HORIZON, ShardEnd
from shardline.errors import StreamNotFound
from shardline.services.clock import boot_seconds
from shardline.spark.driver.plan_runner import PlanRunner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.shards import Shard
    from shardline.spark.executor.range_reader import ShardRange
    from shardline.spark.options import Connection, Options

logger = logging.getLogger(__name__)

_ASK_SECONDS: Final = 5.0
_SETTLED: Final = timedelta(seconds=10)
"""A listing of the old stream is believed when the new one is older than this: it may be stale."""

_BEGINNING: Final = Offset(TRIM_HORIZON)


class StreamPlan:
    """Plans one stream of a query, and the stream that replaces it."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self.connection: Final = connection
        self._options = options
        self._runner: PlanRunner | None = None
        self._arn: str | None = None
        """The stream that the runner plans; None: the one that has the name."""
        self._successors: dict[str, str] = {}
        self._ask_at = 0.0
        self._ends = False

    @property
    def offered(self) -> Offset | None:
        """The newest plan."""
        return self._runner.planner.offered if self._runner is not None else None

    def set_target(self) -> None:
        """Count only what has arrived by now from here on, so that the query can end."""
        self._ends = True
        if self._runner is not None:
            self._runner.set_target()

    def runner_after(self, committed: Offset) -> tuple[PlanRunner, Offset]:
        """Return what plans the batch after a committed one, and after which offset it plans it."""
        committed = replace(committed, table=None)
        arn = committed.stream
        if arn is not None and self._is_over(committed):
            return self._runner_of(self._successors[arn]), _BEGINNING
        return self._runner_of(arn), committed

    def ranges(
        self, committed: Offset, planned: Offset
    ) -> tuple[Connection, tuple[ShardRange, ...]]:
        """Return what is to be read of a planned batch, and where."""
        committed, planned = replace(committed, table=None), replace(planned, table=None)
        if committed.stream is not None and committed.stream != planned.stream:
            committed = _BEGINNING
        ranges = self._runner_of(planned.stream).ranges(committed, planned)
        return self.connection.to(planned.stream), ranges

    def close(self) -> None:
        """Stop the threads and close the connections."""
        if self._runner is not None:
            self._runner.close()

    def _runner_of(self, arn: str | None) -> PlanRunner:
        if self._runner is not None and (arn is None or self._arn in (None, arn)):
            self._arn = arn or self._arn
            return self._runner
        self.close()
        service = self.connection.to(arn).connect()
        settings = self._options.settings(finds_times=service.finds_times)
        self._runner, self._arn = PlanRunner(service, settings), arn
        if self._ends:
            self._runner.set_target()
        return self._runner

    def _is_over(self, committed: Offset) -> bool:
        """Return true if a stream is delivered to its end, and another one has replaced it."""
        arn = committed.stream
        if arn is None or not self.connection.may_be_replaced(arn):
            return False
        if arn in self._successors:
            return True
        if not all(isinstance(item.upto, ShardEnd) for item in committed.ranges.values()):
            return False
        now = boot_seconds()
        if now < self._ask_at:
            return False
        self._ask_at = now + _ASK_SECONDS
        newest = self._newest()
        if newest is None or newest == arn or not self._has_only(committed):
            return False
        self._successors[arn] = newest
        logger.warning(
            "%s was switched off and on: everything in %s is delivered, going on with %s. Changes "
            "made while it was off are in neither",
            self.connection.name,
            arn,
            newest,
        )
        return True

    def _newest(self) -> str | None:
        """Return the newest stream of the table, unless it is too young to tell."""
        service = self.connection.connect()
        try:
            newest = service.describe()
        except StreamNotFound:
            return None
        finally:
            service.close()
        now = newest.service_time
        settled = now is not None and now - newest.created_at >= _SETTLED
        return newest.arn if newest.active and settled else None

    def _has_only(self, committed: Offset) -> bool:
        """Return true if a stream lists no shard that is not delivered; it may be gone."""
        service = self.connection.to(committed.stream).connect()
        listed: Iterable[Shard] = ()
        try:
            with suppress(StreamNotFound):
                listed = service.list_shards()
        finally:
            service.close()
        known = committed.ranges.keys() | committed.drained.keys()
        return all(shard.id in known for shard in listed)
