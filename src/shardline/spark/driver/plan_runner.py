"""Runs a planner on the driver: its instructions on threads, Spark's questions at once."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from shardline.core.planning.events import Asked, GapAccepted, TargetSet, Woken
from shardline.core.planning.planner import Planner
from shardline.core.silence import BOUND_TEXT
from shardline.services.clock import boot_seconds
from shardline.services.steps import Pause, Steps
from shardline.spark.driver.orders import Orders
from shardline.spark.driver.task_plan import confirm, fresh_ranges, with_hash_ranges
from shardline.spark.step_pool import StepPool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.gaps import Gap
    from shardline.core.offsets import Offset
    from shardline.core.planning.events import Event, Instruction
    from shardline.core.planning.limits import Settings
    from shardline.services.port import StreamService
    from shardline.spark.executor.range_reader import ShardRange

logger = logging.getLogger(__name__)

_THREADS: Final = 16


class PlanRunner:
    """Answers Spark's questions for the next batch, and prepares it while a batch runs."""

    def __init__(self, service: StreamService, settings: Settings) -> None:
        self.planner: Final = Planner(settings)
        self.orders: Final = Orders(service)
        self._service = service
        self._pool = StepPool(_THREADS, "shardline-plan")
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._wake_at: float | None = None
        self._logged_gaps: set[Gap] = set()
        self._logged_bound = settings.finds_times

    def set_target(self) -> None:
        """Count only what has arrived by now from here on, so that the query can end."""
        self._log_bound()
        self._post(TargetSet())

    def ask(
        self, committed: Offset, max_records: int | None, *, all_available: bool = False
    ) -> Offset | None:
        """Return the batch after a committed one; None if there is nothing to put into it now.

        With a target, wait until there is something, so that None means that it is reached.
        """
        self.pose(committed, max_records, all_available=all_available)
        with self._changed:
            while True:
                offset, waits = self.poll()
                if not waits:
                    return offset
                self._changed.wait(0.05)

    def pose(self, committed: Offset, max_records: int | None, *, all_available: bool) -> None:
        """Ask for the batch after a committed one, without waiting for it."""
        self._logged_gaps.update(committed.gaps)
        if all_available:
            self._log_bound()
        self._post(Asked(committed, max_records, all_available))

    def poll(self) -> tuple[Offset | None, bool]:
        """Return the batch that was asked for, once there is one; true if it is worth waiting."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            now = boot_seconds()
            offset = self.planner.offer(now)
            self._log_gaps(offset.gaps if offset is not None else ())
            return offset, offset is None and self.planner.waits(now)

    def ranges(self, committed: Offset, planned: Offset) -> tuple[ShardRange, ...]:
        """Return what is to be read of a planned batch, or raise if it expired meanwhile."""
        planner = self.planner
        with self._changed:
            if planned == planner.offered:
                ranges = fresh_ranges(
                    committed, planned, planner.retention, planner.taken, self.orders.take_spent
                )
                return with_hash_ranges(ranges, planner.shards)
        confirmed = confirm(
            self._service,
            self.orders,
            committed,
            planned,
            fail_on_data_loss=planner.settings.fail_on_data_loss,
        )
        for gap in confirmed.gaps:
            self._post(GapAccepted(gap))
        return with_hash_ranges(confirmed.ranges, self._service.list_shards())

    def _log_gaps(self, gaps: tuple[Gap, ...]) -> None:
        for gap in gaps:
            if gap not in self._logged_gaps:
                self._logged_gaps.add(gap)
                logger.warning("%s", gap)

    def _log_bound(self) -> None:
        if not self._logged_bound:
            self._logged_bound = True
            logger.warning("%s. What comes later is left to the next run", BOUND_TEXT)

    def close(self) -> None:
        """Stop the threads and close the connections."""
        self._pool.close()
        self._service.close()

    def _post(self, event: Event) -> None:
        """Hand an event to the planner, and start what it asks for."""
        with self._changed:
            instructions = self.planner.handle(event, boot_seconds())
            self._changed.notify_all()
            self._submit(instructions)

    def _submit(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            self._pool.submit(self.orders.carry_out(instruction), self._done)
        wake_at, now = self.planner.wake_at, boot_seconds()
        if wake_at is not None and (self._wake_at is None or wake_at < self._wake_at):
            self._wake_at = wake_at
            self._pool.submit(_wake(), self._woken, max(0.0, wake_at - now))

    def _done(self, event: Any, error: BaseException | None) -> None:
        if error is None:
            self._post(event)
            return
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _woken(self, _: object, __: BaseException | None) -> None:
        self._wake_at = None
        self._post(Woken())


def _wake() -> Steps[None]:
    """Return steps that do nothing but wait for their turn."""
    yield Pause(0.0)
