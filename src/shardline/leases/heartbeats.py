"""The actor that renews a worker's heartbeat and reads the row of its run, and nothing else."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from shardline.core.leasing import events as e
from shardline.core.leasing.runs import RunState
from shardline.errors import ConfigurationError, ShardlineError
from shardline.leases.address import table_is_local
from shardline.leases.port import TableUnavailable
from shardline.services.steps import Pause

if TYPE_CHECKING:
    from shardline.leases.member import Member
    from shardline.services.steps import Steps

_RUN_SECONDS: Final = 0.5
"""How often the row of the run is read: a stop is noticed that soon."""
_LOCAL_RUN_SECONDS: Final = 0.15
"""The same where a read costs next to nothing."""
_TRIES: Final = 3
"""A refusal shows what is stored: a renewal whose answer was lost, or nothing."""


class Heartbeats:
    """Renews a heartbeat. No call of any other actor can delay it."""

    def __init__(self, member: Member, run_id: str | None) -> None:
        self._member = member
        self._run_id = run_id
        self._run_seconds = _RUN_SECONDS
        if table_is_local(member.table.address):
            self._run_seconds = _LOCAL_RUN_SECONDS
        self._run_read_at = float("-inf")

    def steps(self) -> Steps[None]:
        """Renew when it is time, until the member ends."""
        while self._member.error is None and not self._member.state.leaving:
            yield from self.round()
            yield Pause(self.rest_seconds())

    def round(self) -> Steps[None]:
        """Read the run's row before the first heartbeat; renew if it is time."""
        member = self._member
        if not member.prepared:
            return
        try:
            if member.state.run.state is RunState.UNKNOWN:
                yield from self._read_run()
            yield from self.renew()
            yield from self._read_run()
        except TableUnavailable as error:
            member.warn("could not renew its heartbeat", error)
        except ShardlineError as error:
            member.error = error
        member.handle(e.TimePassed())

    def renew(self) -> Steps[None]:
        """Write the next heartbeat if it is time."""
        for _ in range(_TRIES):
            renewals = self._member.handle(e.RenewalDue())
            if not renewals:
                return
            for renewal in renewals:
                yield from self._member.write(renewal)

    def rest_seconds(self) -> float:
        """Return how long to wait until the next round."""
        times = self._member.state.times
        return min(self._run_seconds, times.renew_seconds / 3)

    def _read_run(self) -> Steps[None]:
        member = self._member
        if self._run_id is None or member.clock() - self._run_read_at < self._run_seconds:
            return
        app_name = member.space[0]
        run = yield partial(member.table.read_run, app_name, self._run_id)
        self._run_read_at = member.clock()
        member.handle(e.RunRead(run))
        if member.state.run.state is RunState.MISSING:
            raise ConfigurationError(
                f"run {self._run_id} of app {app_name!r} is not in {member.table.address}: does "
                "every worker open the same table as the launcher? A file on each machine is not"
            )
