"""The actor that describes and lists the stream. It writes nothing and delays nobody."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from shardline.core.leasing import events as e
from shardline.errors import ConfigurationError, ServiceError
from shardline.services.steps import Pause

if TYPE_CHECKING:
    from shardline.leases.member import Member
    from shardline.services.port import StreamService
    from shardline.services.steps import Steps

logger = logging.getLogger(__name__)

_REST_SECONDS: Final = 1.0
_LOOKUPS_AT_ONCE: Final = 100


class Listings:
    """Describes the stream, lists its shards, and asks for single ones that a listing lacks."""

    def __init__(self, member: Member, service: StreamService) -> None:
        self._member = member
        self._service = service
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
            if clock() >= state.describe_due_at() or not self._active():
                yield from self._describe()
            if self._active() and self._member.wants_start:
                yield from self._resolve_latest()
            if not self._active() or state.header is None:
                return
            yield from self._list_children()
            if clock() >= state.listing_due_at(clock()):
                yield from self._list()
        except ServiceError as error:
            if not self._active():
                self.waiting_for = str(error)
            logger.warning("%s: %s; trying again", state.owner, error)
        except ConfigurationError as error:
            self._member.error = error

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

    def _list_children(self) -> Steps[None]:
        """List the children of shards that ended here: they prove that the shard was closed."""
        for shard_id in self._member.state.ended_shards():
            children = yield partial(self._service.list_children, shard_id)
            self._member.handle(e.ChildrenListed(shard_id, tuple(children)))

    def _list(self) -> Steps[None]:
        member, asked_at = self._member, self._member.clock()
        shards = yield self._service.list_shards
        member.handle(e.ShardsListed(tuple(shards), asked_at))
        for hole in member.state.ledger.listing.holes:
            logger.warning("the listing of %s lacks %s: listing again", member.space[1], hole)
        unknown = member.state.unknown_shards()[:_LOOKUPS_AT_ONCE]
        if unknown:
            yield from self._describe()  # before anything is called gone: is it the same stream?
        for shard_id in unknown:
            found = yield partial(self._service.has_shard, shard_id)
            member.handle(e.ShardLookedUp(shard_id, found))
