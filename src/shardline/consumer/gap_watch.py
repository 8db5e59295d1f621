"""Watches one shard for records that expired unread; the rules are in `core.gaps`."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from shardline.core.gaps import (
    Evidence,
    Gap,
    Verdict,
    as_of_after_page,
    first_as_of,
    gap_at,
    judge,
)
from shardline.core.positions import TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber
from shardline.core.silence import Silence
from shardline.errors import ServiceError
from shardline.services.cursor import ShardCursor
from shardline.services.kept_records import kept_steps, position_at
from shardline.services.wire.columns import time_column

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.core.positions import Position
    from shardline.services.port import Page, StreamService
    from shardline.services.steps import Steps


class GapWatch:
    """Knows the place up to which a shard was read, and since when nothing before it can expire."""

    def __init__(
        self,
        service: StreamService,
        shard_id: str,
        position: Position,
        as_of: datetime | None,
        clock: Callable[[], float],
        stream_created_at: datetime | None = None,
    ) -> None:
        """Watch a shard of the stream that was created then; None: of any of that name."""
        self.as_of = as_of
        self._stream_created_at = stream_created_at
        self._clock = clock
        self._service = service
        self._shard_id = shard_id
        self._position = position
        self._retention = timedelta(days=1)
        self._retention_known = False
        self._silence = Silence()

    def before_page(self, page: Page) -> Steps[Gap | None]:
        """Return the gap between the place and a page that was just read, or None."""
        if not self._retention_known:
            yield from self._learn_retention()
        verdict = self._judge(page.service_time, Evidence.NONE)
        if verdict is Verdict.SAFE:
            return None
        yield from self._learn_retention()  # it may have been raised since
        evidence = yield from self._evidence()
        return self._gap(page.service_time, evidence)

    def at_refusal(self) -> Steps[Gap | Verdict]:
        """Return the gap at a place that the service refuses as trimmed, or what to do instead."""
        yield from self._learn_retention()
        iterator = yield partial(self._service.open, self._shard_id, TRIM_HORIZON)
        page: Page = yield partial(self._service.read, iterator, 1)
        now = page.service_time
        return self._gap(now, Evidence.TRIMMED) or self._judge(now, Evidence.TRIMMED)

    def after_page(self, page: Page, *, closed: bool) -> None:
        """Move the place to the end of a page that was taken in."""
        rows = page.records.num_rows
        arrival: datetime | None = None
        if rows:
            column = page.records.column("sequenceNumber")
            self._position = After(SequenceNumber(column[rows - 1].as_py()))
            arrival = time_column(page.records)[rows - 1].as_py()
        if self.as_of is not None:
            self.as_of = as_of_after_page(
                self.as_of,
                last_arrival=arrival,
                behind_ms=page.behind_ms,
                service_time=page.service_time,
                closed=closed,
            )
            if page.behind_ms is None and not closed:
                silent_until = self._silence.after_page(rows, page.service_time)
                self.as_of = max(self.as_of, silent_until or self.as_of)

    def skip_to_horizon(self) -> None:
        """Accept a gap: the place is the horizon, as at a first start."""
        self._position = TRIM_HORIZON
        self.as_of = None

    def _judge(self, now: datetime, evidence: Evidence) -> Verdict:
        if self.as_of is None:
            self.as_of = first_as_of(self._position, known_at=now, retention=self._retention)
        return judge(
            self._position, self.as_of, now=now, retention=self._retention, evidence=evidence
        )

    def _gap(self, now: datetime, evidence: Evidence) -> Gap | None:
        if self._judge(now, evidence) is not Verdict.GAP:
            return None
        return gap_at(
            self._shard_id,
            self._position,
            self.as_of or now,
            now=now,
            retention=self._retention,
            reason="the service no longer has the record at that place",
        )

    def _evidence(self) -> Steps[Evidence]:
        """Ask the service for the record at the place."""
        if not isinstance(self._position, After):
            return Evidence.NONE
        at = position_at(self._position)
        cursor = ShardCursor(self._service, self._shard_id, at, clock=self._clock)
        return (yield from kept_steps(cursor, self._position))

    def _learn_retention(self) -> Steps[None]:
        description = yield self._service.describe
        if self._stream_created_at not in (None, description.created_at):
            # A shard of the same name may have other parents there. The keeper will notice, too.
            raise ServiceError("the stream was deleted and made again: its leases are of the old")
        self._retention = timedelta(seconds=description.retention_seconds)
        self._retention_known = True
