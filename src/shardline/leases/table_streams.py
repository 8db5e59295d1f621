"""The streams of one table, which an app reads one after the other.

DynamoDB makes a new stream each time that streaming is switched on, and keeps the old one for a
day. The header row names the stream that the app reads by its time of creation. It is drained
before the next one begins, so that the order of every key holds.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.leasing import events as e
from shardline.core.leasing.listing_schedule import LIST_SECONDS
from shardline.errors import StreamNotFound

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.leases.member import Member
    from shardline.services.port import StreamService
    from shardline.services.steps import Steps

logger = logging.getLogger(__name__)

_LATER: Final = timedelta(microseconds=1)


class TableStreams:
    """Chooses the stream of a table. `open_from` opens the first one created then or later."""

    def __init__(self, member: Member, open_from: Callable[[datetime], StreamService]) -> None:
        self._member = member
        self._open_from = open_from
        self._asked_at = float("-inf")
        """When the service was last asked for the stream after one that is drained."""

    def due(self) -> bool:
        """Return true if another stream is wanted, or all of this one was processed."""
        member, stream, header = self._member, self._member.state.stream, self._member.state.header
        if member.wants_stream is not None:
            return True
        if stream is None or header is None:
            return False
        asked_recently = member.clock() < self._asked_at + LIST_SECONDS
        return not asked_recently and member.state.ledger.drained()

    def choose(self, service: StreamService) -> Steps[StreamService]:
        """Return the stream to read from now on; another one than before if that is left."""
        member, state = self._member, self._member.state
        stream, header = state.stream, state.header
        if member.wants_stream is not None:
            return (yield from self._return_to(service, member.wants_stream))
        if stream is None or header is None:
            return service
        if header.stream_created_at > stream.created_at:
            return self._open_from(header.stream_created_at)  # another worker went on with it
        if header.stream_created_at == stream.created_at and state.ledger.drained():
            return (yield from self._go_on(service, stream.created_at))
        return service

    def leave(self, service: StreamService) -> Steps[StreamService]:
        """Return the next stream after one that is gone; the same if there is none."""
        header = self._member.state.header
        if header is None:
            return service
        newer, created_at = yield from self._find(header.stream_created_at + _LATER)
        if created_at is None:
            return service
        self._say_gone(header.stream_created_at)
        return newer

    def _return_to(self, service: StreamService, wanted: datetime) -> Steps[StreamService]:
        """Return the stream that the header names, unless it is gone."""
        found, created_at = yield from self._find(wanted)
        self._member.wants_stream = None
        if created_at == wanted:
            return found
        self._say_gone(wanted)
        return service if created_at is None else found

    def _go_on(self, service: StreamService, created_at: datetime) -> Steps[StreamService]:
        """Return the next stream, if there is one: then no shard is added to the one before."""
        self._asked_at = self._member.clock()
        newer, newer_created_at = yield from self._find(created_at + _LATER)
        if newer_created_at is None:
            return service
        asked_at = self._member.clock()
        shards = yield service.list_shards
        header = self._member.state.header
        if header is None or header.stream_created_at != created_at:
            return service  # another worker went on meanwhile: these are no shards of its stream
        self._member.handle(e.ShardsListed(tuple(shards), asked_at))
        if not self._member.state.ledger.drained():
            return service
        self._member.left_streams.add(created_at)
        logger.warning(
            "%s was switched off and on: everything of its stream of %s was processed, going on "
            "with that of %s; changes that were made between the two are in neither",
            self._member.space[1], created_at, newer_created_at,
        )  # fmt: skip
        return newer

    def _find(self, since: datetime) -> Steps[tuple[StreamService, datetime | None]]:
        found = self._open_from(since)
        try:
            description = yield found.describe
        except StreamNotFound:
            return found, None
        return found, description.created_at if description.active else None

    def _say_gone(self, created_at: datetime) -> None:
        self._member.left_streams.add(created_at)
        logger.error(
            "the stream of %s that was created at %s is gone: what was not processed of it is lost",
            self._member.space[1], created_at,
        )  # fmt: skip
