"""The actor that describes and lists the stream. It writes nothing and delays nobody."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from shardline.core.leasing import events as e
from shardline.errors import ConfigurationError, ServiceError, StreamNotFound
from shardline.services.steps import Pause

if TYPE_CHECKING:
    from shardline.core.leasing.rows import Header
    from shardline.leases.member import Member
    from shardline.leases.table_streams import TableStreams
    from shardline.services.port import StreamService
    from shardline.services.steps import Steps

logger = logging.getLogger(__name__)

_REST_SECONDS: Final = 1.0
_LOOKUPS_AT_ONCE: Final = 100


class Listings:
    """Describes the stream, lists its shards, and asks for single ones that a listing lacks."""

    def __init__(
        self, member: Member, service: StreamService, table_streams: TableStreams | None = None
    ) -> None:
        self._member = member
        self._service = service
        self._table_streams = table_streams
        self.waiting_for = ""
        """Why the stream cannot be read yet, in words; empty when it can."""

    def steps(self) -> Steps[None]:
        """List when it is time, until the member ends."""
        while self._member.error is None and not self._member.state.leaving:
            yield from self.round()
            yield Pause(_REST_SECONDS)

    def round(self) -> Steps[None]:
        """Describe and list if it is time; what fails is tried again in the next round."""
        state, clock = self._member.state, self._member.clock
        try:
            due = clock() >= state.describe_due_at() or not self._active() or self._is_replaced()
            if due or (self._table_streams is not None and self._table_streams.due()):
                yield from self._choose_stream()
                yield from self._describe()
            if self._active() and self._member.wants_start:
                yield from self._resolve_latest()
            stream, header = state.stream, state.header
            if stream is None or not stream.active or header is None:
                return
            if stream.created_at != header.stream_created_at:
                return  # replaced since it was described: what is listed is of another stream
            yield from self._list_children(header)
            if clock() >= state.listing_due_at(clock()):
                yield from self._list(header)
        except StreamNotFound as error:
            yield from self._stream_gone(error)
        except ServiceError as error:
            if not self._active():
                self.waiting_for = str(error)
            logger.warning("%s: %s; trying again", state.owner, error)
        except ConfigurationError as error:
            self._member.error = error

    def _choose_stream(self) -> Steps[None]:
        if self._table_streams is not None:
            chosen = yield from self._table_streams.choose(self._service)
            self._use(chosen)

    def _stream_gone(self, error: StreamNotFound) -> Steps[None]:
        state = self._member.state
        if not self._active():
            self.waiting_for = str(error)
        logger.warning("%s: %s; trying again", state.owner, error)
        if self._table_streams is not None:
            try:
                self._use((yield from self._table_streams.leave(self._service)))
            except ServiceError as again:
                logger.warning("%s: %s; trying again", state.owner, again)

    def _use(self, service: StreamService) -> None:
        if service is not self._service:
            self._service.close()
            self._service = service

    def _resolve_latest(self) -> Steps[None]:
        """List, then ask for the time: what is closed by then was closed before that time."""
        asked_at = self._member.clock()
        shards = yield self._service.list_shards
        self._member.handle(e.ShardsListed(tuple(shards), asked_at))
        yield from self._describe()
        self._member.wants_start = False

    def _active(self) -> bool:
        stream = self._member.state.stream
        return stream is not None and stream.active

    def _is_replaced(self) -> bool:
        """Return true if the header names a later stream than the one that was described."""
        stream, header = self._member.state.stream, self._member.state.header
        if stream is None or header is None:
            return False
        return header.stream_created_at > stream.created_at

    def _describe(self) -> Steps[None]:
        description = yield self._service.describe
        self._member.handle(
            e.StreamDescribed(
                description.created_at,
                description.active,
                description.retention_seconds,
                description.service_time or self._member.today(),
            )
        )
        name = self._member.space[1]
        waiting_for = "" if description.active else f"{name} is not active yet"
        if waiting_for and waiting_for != self.waiting_for:
            logger.warning("%s: waiting until it is", waiting_for)
        self.waiting_for = waiting_for

    def _same_stream(self, header: Header) -> bool:
        """Return false if the stream was replaced during a call: its answer is of the old one."""
        now = self._member.state.header
        return now is not None and now.stream_created_at == header.stream_created_at

    def _list_children(self, header: Header) -> Steps[None]:
        """List the children of shards that ended here: they prove that the shard was closed."""
        for shard_id in self._member.state.ended_shards():
            children = yield partial(self._service.list_children, shard_id)
            if self._same_stream(header):
                self._member.handle(e.ChildrenListed(shard_id, tuple(children)))

    def _list(self, header: Header) -> Steps[None]:
        member, asked_at = self._member, self._member.clock()
        shards = yield self._service.list_shards
        if not self._same_stream(header):
            return
        member.handle(e.ShardsListed(tuple(shards), asked_at))
        for hole in member.state.ledger.listing.holes:
            logger.warning("the listing of %s lacks %s: listing again", member.space[1], hole)
        unknown = member.state.unknown_shards()[:_LOOKUPS_AT_ONCE]
        if unknown:
            yield from self._describe()  # before anything is called gone: is it the same stream?
        for shard_id in unknown:
            found = yield partial(self._service.has_shard, shard_id)
            if self._same_stream(header):
                member.handle(e.ShardLookedUp(shard_id, found))
