"""The leases of some shards, held by a command for as long as it works on them.

A shard is taken from its owner, as `shardline leases release` does it: the owner finds out at its
next write or look at the table, and nothing that it acknowledges after the take succeeds. As long
as the heartbeat here is renewed no worker takes the shards; if this process dies, they are free
after the lease time.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, Self

from shardline.core.leasing.rows import Heartbeat, LeaseRow, released, taken
from shardline.core.leasing.times import LeaseTimes
from shardline.errors import LeaseLost
from shardline.leases.port import Conflict, TableUnavailable
from shardline.services.clock import boot_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardline.leases.port import LeaseTable

logger = logging.getLogger(__name__)

_TAKE_ATTEMPTS: Final = 20


class HeldShards:
    """Leases on one stream. Use it as a context, and call `require` before each piece of work."""

    def __init__(
        self, table: LeaseTable, app: str, stream_name: str, times: LeaseTimes | None = None
    ) -> None:
        self.owner: Final = f"redrive-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4()}"
        self._table = table
        self._space = (app, stream_name)
        self._times = times or LeaseTimes()
        self._rows: dict[str, LeaseRow] = {}
        self._beat: Heartbeat | None = None
        self._valid_until = float("-inf")
        self._stopped = Event()
        self._renewals = Thread(target=self._renew_until_stopped, name=self.owner, daemon=True)

    @property
    def rows(self) -> Mapping[str, LeaseRow]:
        """The lease rows as they were taken, by shard."""
        return self._rows

    def take(self, shard_ids: Iterable[str]) -> None:
        """Take the leases of these shards, whoever has them."""
        wanted = tuple(shard_ids)
        self._renew(len(wanted))
        self._renewals.start()
        for shard_id in wanted:
            self._rows[shard_id] = self._take(shard_id)
        self._wake_workers()

    def require(self) -> None:
        """Raise `LeaseLost` if the leases may be others' by now."""
        if boot_seconds() > self._valid_until:
            raise LeaseLost("the lease table could not be reached for too long: run it again")

    def release(self) -> None:
        """Give the leases back, halted ones as halted as they were."""
        self._stopped.set()
        if self._renewals.is_alive():
            self._renewals.join()
        for row in self._rows.values():
            try:
                self._table.swap_row(released(row), row)
            except Conflict:
                logger.warning("%s: another worker took the lease meanwhile", row.shard_id)
        self._rows = {}
        if self._beat is not None:
            self._table.delete_heartbeat(self._beat)
            self._wake_workers()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _take(self, shard_id: str) -> LeaseRow:
        for _ in range(_TAKE_ATTEMPTS):
            row = self._table.read_rows(*self._space, [shard_id])[shard_id]
            if row.completed:
                raise LeaseLost(f"{shard_id} was completed in the meantime: run it again")
            parents = self._table.read_rows(*self._space, row.parents).values()
            above = max((parent.epoch for parent in parents), default=0)
            new = replace(taken(replace(row, halted=""), self.owner, above), halted=row.halted)
            try:
                self._table.swap_row(new, row)
            except Conflict:
                continue
            return new
        raise LeaseLost(f"{shard_id}: others took the lease {_TAKE_ATTEMPTS} times in between")

    def _renew_until_stopped(self) -> None:
        while not self._stopped.wait(self._times.renew_seconds):
            try:
                self._renew(len(self._rows))
            except (Conflict, TableUnavailable) as error:
                logger.warning("the heartbeat could not be renewed: %s", error)

    def _renew(self, held: int) -> None:
        sent_at = boot_seconds()
        count = 1 if self._beat is None else self._beat.count + 1
        new = Heartbeat(*self._space, self.owner, count, held=held, capacity=held)
        try:
            self._table.swap_heartbeat(new, self._beat)
        except Conflict as conflict:  # a renewal whose answer was lost
            if not isinstance(conflict.current, Heartbeat):
                raise
            self._beat = conflict.current
            return
        self._beat = new
        self._valid_until = sent_at + self._times.stop_seconds

    def _wake_workers(self) -> None:
        header = self._table.read_header(*self._space)
        if header is not None:
            self._table.bump(header)
