"""Where the dashboard's snapshots come from: a live stream, or anything with a `snapshot`."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from shardline.core.leasing.rows import released_by_hand
from shardline.errors import ConfigurationError, ShardlineError
from shardline.observation.history import History
from shardline.observation.observation import observe
from shardline.observation.snapshot import EventKind
from shardline.services.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from shardline.core.promise import Verdict
    from shardline.core.shards import Shard
    from shardline.leases.port import LeaseTable
    from shardline.observation.dead_letter_reader import LetterReader
    from shardline.observation.snapshot import Snapshot
    from shardline.services.port import StreamDescription, StreamService

_DESCRIBE_SECONDS: Final = 60.0
"""DescribeStream has a quota per account, so a recreated stream may show up to a minute late."""


class Watch(Protocol):
    """A source of snapshots. The page server calls it from a thread of its own."""

    def snapshot(self) -> Snapshot:
        """Return the current snapshot."""


class RateSource(Protocol):
    """A source of record rates by shard."""

    def count(self, shards: Iterable[Shard], now: float) -> Mapping[str, float]:
        """Return the records per second of each shard where they are known."""


class LiveWatch:
    """Observes a stream through its listing and, with an application, through its lease table.

    Thread-safe. Without a meter it reads no records, and so uses none of the stream's read quota.
    """

    def __init__(
        self,
        address: str,
        service: StreamService,
        table: LeaseTable | None = None,
        app: str | None = None,
        meter: RateSource | None = None,
        letters: LetterReader | None = None,
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
        """Add an event that no observation shows, such as a worker that a test has killed."""
        with self._lock:
            self._history.note(self._clock(), text, kind)

    def set_verdict(self, verdict: Verdict) -> None:
        """Show a checker's verdict from now on."""
        with self._lock:
            self._verdict = verdict

    def snapshot(self) -> Snapshot:
        """Return a new snapshot or, if that fails, the previous one with a notice."""
        with self._lock:
            return self._observe()

    def _observe(self) -> Snapshot:
        try:
            now = self._clock()
            if self._description is None or now - self._described_at > _DESCRIBE_SECONDS:
                self._description = self._service.describe()
                self._described_at = now
            observation = observe(
                self._service, self._address, now, self._table, self._app, self._description
            )
            if self._meter is not None:
                rates = self._meter.count(observation.shards, now)
                observation = replace(observation, records_per_second=rates)
            letters = self._letters.newest() if self._letters is not None else ()
        except ShardlineError as error:
            if self._last is None:
                raise
            return replace(self._last, notice=str(error), verdict=self._verdict)
        self._last = self._history.add(observation, verdict=self._verdict, dead_letters=letters)
        return self._last

    def release(self, shard_id: str) -> str:
        """Release a shard's lease, so that another worker takes it; return what was done."""
        if self._table is None or self._app is None:
            raise ConfigurationError("no leases are observed: start with --app and --lease-table")
        stream_name = parse_address(self._address).stream_name
        rows = self._table.read_rows(self._app, stream_name, [shard_id])
        row = rows.get(shard_id)
        if row is None or (row.lease_owner is None and not row.halted):
            raise ConfigurationError(f"nobody holds {shard_id}, and it is not halted")
        self._table.swap_row(released_by_hand(row), row)
        what = f"which {row.lease_owner} held" if row.lease_owner else "which was halted"
        return f"released {shard_id}, {what}"
