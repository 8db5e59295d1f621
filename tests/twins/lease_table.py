"""A lease table in memory: for one process, for tests, and for the simulator."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from shardline.leases.port import Conflict, RowPage

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from shardline.core.leasing.parked_keys import ParkedKey
    from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
    from shardline.core.leasing.runs import Run

Space = tuple[str, str]
"""(app_name, stream_name): the rows of two of them never meet."""


class MemoryLeaseTable:
    """The rows of a lease table in dictionaries, behind one lock. It is gone with its process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._headers: dict[Space, Header] = {}
        self._rows: dict[Space, dict[str, LeaseRow]] = {}
        self._ids: dict[Space, list[str]] = {}  # sorted for paging; made anew when ids change
        self._heartbeats: dict[Space, dict[str, Heartbeat]] = {}
        self._runs: dict[tuple[str, str], Run] = {}
        self._parked: dict[Space, dict[tuple[str, str], ParkedKey]] = {}

    @property
    def address(self) -> str:
        return "memory"

    def prepare(self) -> bool:
        return False

    def read_header(self, app_name: str, stream_name: str) -> Header | None:
        return self._headers.get((app_name, stream_name))

    def create_header(self, header: Header, replaces: Header | None = None) -> None:
        space = (header.app_name, header.stream_name)
        with self._lock:
            stored = self._headers.get(space)
            expected = replaces and replaces.stream_created_at
            if (stored and stored.stream_created_at) != expected:
                raise Conflict(stored)
            self._headers[space] = header

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        space = (header.app_name, header.stream_name)
        with self._lock:
            stored = self._headers.get(space)
            if stored is None or stored.stream_created_at != header.stream_created_at:
                raise Conflict(stored)
            stored = replace(stored, moves=stored.moves + 1, settled=stored.settled or settled)
            self._headers[space] = stored
            return stored

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        space = (app_name, stream_name)
        with self._lock:
            rows = self._rows.get(space, {})
            ids = self._ids.get(space)
            if ids is None:
                ids = self._ids[space] = sorted(rows, key=str.encode)
            first = 0 if after is None else bisect_right(ids, after.encode(), key=str.encode)
            page = ids[first : first + limit]
            more = first + limit < len(ids)
            return RowPage(tuple(rows[i] for i in page), page[-1] if more else None)

    def read_rows(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> Mapping[str, LeaseRow]:
        rows = self._rows.get((app_name, stream_name), {})
        with self._lock:
            return {i: rows[i] for i in shard_ids if i in rows}

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        space = (new.app_name, new.stream_name)
        with self._lock:
            rows = self._rows.setdefault(space, {})
            _require_same(rows.get(new.shard_id), expected)
            if expected is None:
                self._ids.pop(space, None)
            rows[new.shard_id] = new

    def delete_row(self, expected: LeaseRow) -> None:
        space = (expected.app_name, expected.stream_name)
        with self._lock:
            rows = self._rows.setdefault(space, {})
            _require_same(rows.get(expected.shard_id), expected)
            self._ids.pop(space, None)
            del rows[expected.shard_id]

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        with self._lock:
            return tuple(self._heartbeats.get((app_name, stream_name), {}).values())

    def read_heartbeat(self, app_name: str, stream_name: str, worker: str) -> Heartbeat | None:
        return self._heartbeats.get((app_name, stream_name), {}).get(worker)

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        with self._lock:
            beats = self._heartbeats.setdefault((new.app_name, new.stream_name), {})
            stored = beats.get(new.worker)
            if (stored and stored.count) != (expected and expected.count):
                raise Conflict(stored)
            beats[new.worker] = new

    def delete_heartbeat(self, expected: Heartbeat) -> None:
        with self._lock:
            beats = self._heartbeats.setdefault((expected.app_name, expected.stream_name), {})
            stored = beats.get(expected.worker)
            if stored is None or stored.count != expected.count:
                raise Conflict(stored)
            del beats[expected.worker]

    def write_run(self, run: Run) -> Run:
        key = (run.app_name, run.run_id)
        with self._lock:
            stored = self._runs.get(key)
            if stored is not None:
                run = replace(stored, renewed=stored.renewed + 1, workers=run.workers)
            self._runs[key] = run
            return run

    def read_run(self, app_name: str, run_id: str) -> Run | None:
        return self._runs.get((app_name, run_id))

    def read_runs(self, app_name: str) -> tuple[Run, ...]:
        with self._lock:
            return tuple(run for run in self._runs.values() if run.app_name == app_name)

    def stop_run(self, app_name: str, run_id: str) -> Run:
        with self._lock:
            stored = self._runs.get((app_name, run_id))
            if stored is None:
                raise Conflict(None)
            run = self._runs[app_name, run_id] = replace(stored, stopping=True)
            return run

    def delete_run(self, run: Run) -> None:
        self._runs.pop((run.app_name, run.run_id), None)

    def park_key(self, parked: ParkedKey, owner: str) -> None:
        space = (parked.app_name, parked.stream_name)
        with self._lock:
            self._require_lease(parked, owner)
            self._parked.setdefault(space, {})[parked.shard_id, parked.key] = parked

    def read_parked_keys(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> tuple[ParkedKey, ...]:
        with self._lock:
            rows = self._parked.get((app_name, stream_name), {})
            return tuple(row for row in rows.values() if row.shard_id in shard_ids)

    def unpark_key(self, parked: ParkedKey, owner: str) -> None:
        space = (parked.app_name, parked.stream_name)
        with self._lock:
            self._require_lease(parked, owner)
            self._parked[space] = {
                key: row
                for key, row in self._parked.get(space, {}).items()
                if (row.key, row.letter_id) != (parked.key, parked.letter_id)
                or row.epoch > parked.epoch
            }

    def _require_lease(self, parked: ParkedKey, owner: str) -> None:
        lease = self._rows.get((parked.app_name, parked.stream_name), {}).get(parked.shard_id)
        if lease is None or (lease.lease_owner, lease.epoch) != (owner, parked.epoch):
            raise Conflict(lease)

    def close(self) -> None:
        """No-op: there are no connections to close."""


def _require_same(stored: LeaseRow | None, expected: LeaseRow | None) -> None:
    if stored is None or expected is None:
        if stored is not expected:
            raise Conflict(stored)
    elif (stored.lease_owner, *stored.version) != (expected.lease_owner, *expected.version):
        raise Conflict(stored)
