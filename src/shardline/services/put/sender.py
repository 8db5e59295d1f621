"""Sends what may be sent, as steps: list the shards, put, wait. Several senders share an order."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from shardline.errors import ConfigurationError, ServiceError, Throttled
from shardline.services.steps import Pause, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shardline.core.shards import Shard
    from shardline.core.writes.order import EntryResult, Lane, Overdue, WriteOrder

logger = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 60.0
"""A sender without work is woken; this is only how long it waits at most."""


class PutPort(Protocol):
    """What a sender needs of a stream."""

    @property
    def address(self) -> Any:
        """For messages."""

    def list_shards(self) -> tuple[Shard, ...]:
        """List the shards of the stream."""

    def put(self, call: Sequence[Lane]) -> Sequence[EntryResult]:
        """Make a PutRecords call."""


def send_steps(
    order: WriteOrder,
    stream: PutPort,
    clock: Callable[[], float],
    *,
    ended: Callable[[], bool],
    on_answer: Callable[[], object] = lambda: None,
    on_pause: Callable[[], object] = lambda: None,
) -> Steps[None]:
    """Send until the order is empty and `ended` returns true.

    Between two steps the order belongs to this sender alone. Raises `Throttled` when a record was
    refused for too long, and the error of a call that failed for good.
    """
    while True:
        if order.needs_listing:
            yield from _listing(order, stream, clock)
        call = order.next_call(clock())
        if call:
            results = yield partial(stream.put, call)
            order.answered(call, results, clock())
            on_answer()
            if order.overdue is not None:
                raise Throttled(_refusal(stream, order.overdue, order.backlog_records))
        elif order.is_empty and ended():
            return
        else:
            wait = order.wait_seconds(clock())
            on_pause()
            yield Pause(_IDLE_SECONDS if wait is None else wait)


def _listing(order: WriteOrder, stream: PutPort, clock: Callable[[], float]) -> Steps[None]:
    order.listing_failed()  # so that no other sender lists as well
    try:
        shards = yield stream.list_shards
    except (ConfigurationError, ServiceError) as error:
        # Who may put need not be allowed to list. A stream that is missing shows at the put.
        logger.info("%s: writes are paced by refusals alone, for lack of a listing", error)
    else:
        order.listed(shards, clock())


def _refusal(stream: PutPort, overdue: Overdue, backlog: int) -> str:
    where = f"shard {overdue.shard_id}" if overdue.shard_id else "the stream"
    return (
        f"{stream.address}: {where} has refused a record of key {overdue.key[:40]!r} for "
        f"{overdue.seconds:.0f} s ({overdue.error_code}), so {backlog} records are not written: "
        "give the stream more shards, spread the keys, or wait longer with giveUpAfter"
    )
