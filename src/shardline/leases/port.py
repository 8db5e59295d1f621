"""The port of a lease table: few operations, every write conditional, each of them atomic.

A table holds many apps and streams. Five kinds of rows live in it: see `core.leasing.rows`, `runs`
and `parked_keys`. An adapter decides nothing; it compares and writes in one step, and reports what
it found instead. Every call has a deadline of a few seconds. An answer is whole, or it is an error.

Consistency. A *consistent* read returns the latest write that was answered before the read began.
A read that *may lag* may return any earlier state of each row by itself (DynamoDB's eventually
consistent reads): callers rank by `LeaseRow.version` and ask again before they act on an absence.

Errors. `Conflict`: the condition did not hold and nothing was written; it carries what is there.
`TableUnavailable`: no answer, or throttled after the adapter's own few retries. Whether the write
happened is *not known*: the caller reads the row before going on. An adapter must not hide that
by sending a conditional write again by itself, unless it compares a `Conflict` of the second
attempt with what the first one wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.errors import ShardlineError

__all__ = [
    "Conflict", "Header", "Heartbeat", "LeaseRow", "LeaseTable", "ParkedKey", "RowPage", "Run",
    "TableUnavailable",
]  # fmt: skip


class Conflict(ShardlineError):
    """The row is not what the write was conditional on. Nothing was written."""

    def __init__(self, current: LeaseRow | Heartbeat | Header | Run | ParkedKey | None) -> None:
        super().__init__(f"the lease table holds something else: {current}")
        self.current = current
        """What is there now, as of the failed write; None if there is no such row."""


class TableUnavailable(ShardlineError):
    """The lease table gave no answer: read again before believing either outcome of a write."""


@dataclass(frozen=True, slots=True)
class RowPage:
    """Some lease rows, in the order of their shard ids."""

    rows: tuple[LeaseRow, ...]
    next_after: str | None
    """Pass it as `after` to go on; None at the end of the table."""


class LeaseTable(Protocol):
    """Where rows live. Safe to use from several threads."""

    @property
    def address(self) -> str:
        """Where the table is, without a password: for messages."""

    def prepare(self) -> bool:
        """Create what is missing, and wait until it can be used; return true if it was created.

        Nothing is cleared, and it may be repeated. A table of an earlier release is extended.
        """

    def read_header(self, app_name: str, stream_name: str) -> Header | None:
        """Read a header row; consistent. Cheap: it is polled about once a second."""

    def create_header(self, header: Header, replaces: Header | None = None) -> None:
        """Write a header where there is none.

        With `replaces`: only where the stored one still has its `stream_created_at`. Raises
        `Conflict` otherwise.
        """

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        """Add one to the stored `moves` in one step, and return the whole header after it.

        With `settled` also set that to True; it is never set back. The values in `header` are
        not written: only its key and `stream_created_at` count, and the stored one must have
        the same, else `Conflict`. Many callers at once each get a number of their own.
        """

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        """Read up to `limit` lease rows with shard ids above `after`; may lag.

        Ids are ordered by their UTF-8 bytes. A page may be shorter than `limit`; only
        `next_after` = None means the end.
        """

    def read_rows(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> Mapping[str, LeaseRow]:
        """Read these rows; consistent, each by itself. Those that do not exist are left out."""

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        """Write all of `new` if the stored row is still the expected one, in one step.

        It is if `lease_owner`, `epoch` and `lease_count` are equal; None expects no row with
        this key. Raises `Conflict` with the stored row otherwise. Of many callers that expect
        the same row exactly one succeeds.
        """

    def delete_row(self, expected: LeaseRow) -> None:
        """Delete a row under the condition of `swap_row`."""

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        """Read all heartbeats of an app on a stream, in any order; may lag."""

    def read_heartbeat(self, app_name: str, stream_name: str, worker: str) -> Heartbeat | None:
        """Read one worker's heartbeat; consistent."""

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        """Write all of `new` if the stored `count` is still the expected one, in one step.

        None expects no row with this key. Raises `Conflict` otherwise.
        """

    def delete_heartbeat(self, expected: Heartbeat) -> None:
        """Delete a heartbeat whose `count` is still the expected one, else raise `Conflict`."""

    def write_run(self, run: Run) -> Run:
        """Create the row of a run, or renew it; return the row as it is then.

        Renewing adds one to the stored `renewed` and sets `workers`. `stopping` is kept.
        """

    def read_run(self, app_name: str, run_id: str) -> Run | None:
        """Read the row of a run; consistent."""

    def read_runs(self, app_name: str) -> tuple[Run, ...]:
        """Read the rows of all runs of an app, in any order; may lag."""

    def stop_run(self, app_name: str, run_id: str) -> Run:
        """Set `stopping` for good, and return the row. Raises `Conflict` if there is none."""

    def delete_run(self, run: Run) -> None:
        """Delete the row of a run, days after its end; nothing happens if there is none."""

    def park_key(self, parked: ParkedKey, owner: str) -> None:
        """Write a parked key, if the shard's lease is `owner`'s under `parked.epoch`.

        In one step. Raises `Conflict` with the lease row otherwise. A row of the same key with a
        lower epoch is replaced.
        """

    def read_parked_keys(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> tuple[ParkedKey, ...]:
        """Read the parked keys of these shards, in any order; consistent."""

    def unpark_key(self, parked: ParkedKey, owner: str) -> None:
        """Delete a parked key in all shards where it has this letter and no higher epoch.

        On the condition of `park_key`. A row with another letter stays: it was parked again.
        """

    def close(self) -> None:
        """Close connections."""
