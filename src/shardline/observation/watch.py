"""Where the page's snapshots come from: a live stream, or anything else with a `snapshot`."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from shardline.core.leasing.rows import released
from shardline.errors import ConfigurationError, ShardlineError
from shardline.observation.history import History
from shardline.observation.observation import look
from shardline.observation.snapshot import EventKind
from shardline.services.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from shardline.core.promise import Verdict
    from shardline.core.shards import Shard
    from shardline.leases.port import LeaseTable
    from shardline.observation.dead_letter_reader import Letters
    from shardline.observation.snapshot import Snapshot
    from shardline.services.port import StreamDescription, StreamService

_DESCRIBE_SECONDS: Final = 60.0
"""Describing a stream is budgeted per account; a stream made again may show a minute late."""


class Watch(Protocol):
    """Something that can be looked at again and again. The page's server looks from a thread."""

    def snapshot(self) -> Snapshot:
        """Return what is to be seen now."""


class Rates(Protocol):
    """Something that knows how many records a second flow through each shard."""

    def count(self, shards: Iterable[Shard], now: float) -> Mapping[str, float]:
        """Return records per second by shard, of those where that is known."""


class LiveWatch:
    """Watches a stream through its listing and, with an application, through its lease table.

    Safe to use from several threads. Without a meter it reads no records, and so takes nothing
    of the stream's read budget.
    """

    def __init__(
        self,
        address: str,
        service: StreamService,
        table: LeaseTable | None = None,
        app: str | None = None,
        meter: Rates | None = None,
        letters: Letters | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._service = service
        self._table = table
        self._app = app
        self._meter = meter
        self._letters = letters
        self._clock = clock
        self._history = History(address, app)
        self._description: StreamDescription | None = None
        self._described_at = 0.0
        self._last: Snapshot | None = None
        self._verdict: Verdict | None = None
        self._lock = threading.Lock()

    def note(self, text: str, kind: EventKind = EventKind.NOTE) -> None:
        """Add an event that no look can find, such as a worker that was killed on purpose."""
        with self._lock:
            self._history.note(self._clock(), text, kind)

    def judge(self, verdict: Verdict) -> None:
        """Show a checker's verdict from now on."""
        with self._lock:
            self._verdict = verdict

    def snapshot(self) -> Snapshot:
        """Look again. When that fails, return what was last seen with a notice that says so."""
        with self._lock:
            return self._look()

    def _look(self) -> Snapshot:
        try:
            now = self._clock()
            if self._description is None or now - self._described_at > _DESCRIBE_SECONDS:
                self._description = self._service.describe()
                self._described_at = now
            sighting = look(
                self._service, self._address, now, self._table, self._app, self._description
            )
            if self._meter is not None:
                rates = self._meter.count(sighting.shards, now)
                sighting = replace(sighting, records_per_second=rates)
            letters = self._letters.newest() if self._letters is not None else ()
        except ShardlineError as error:
            if self._last is None:
                raise
            return replace(self._last, notice=str(error), verdict=self._verdict)
        self._last = self._history.observe(sighting, verdict=self._verdict, dead_letters=letters)
        return self._last

    def release(self, shard_id: str) -> str:
        """Take a shard's lease away from its owner, so that another worker takes it."""
        if self._table is None or self._app is None:
            raise ConfigurationError("no leases are watched: start with --app and --lease-table")
        stream_name = parse_address(self._address).stream_name
        rows = self._table.read_rows(self._app, stream_name, [shard_id])
        row = rows.get(shard_id)
        if row is None or row.lease_owner is None:
            raise ConfigurationError(f"nobody holds {shard_id}")
        self._table.swap_row(released(row), row)
        return f"released {shard_id}, which {row.lease_owner} held"
