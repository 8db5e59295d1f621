"""Which shards may be read now, and for each other one why it waits.

One rule keeps every key in order: a shard is read only when each of its ancestors has been
drained, or is gone for good by the service's own word. Closed is not drained, missing from a
listing is not gone, and missing from our records is not drained either.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from shardline.core.shards import HASH_SPACE_END, HashRange, Shard


class State(Enum):
    """The state of a shard for one consumer."""

    UNDISCOVERED = "undiscovered"
    """Named by a child or by our records but not listed: ask the service for it, and wait."""
    WAITING = "waiting"
    """An ancestor is not drained yet."""
    READABLE = "readable"
    """Every ancestor is drained or trimmed."""
    DRAINED = "drained"
    """Delivered to its end, and that is durable."""
    TRIMMED = "trimmed"
    """The service says for this very shard that it is gone."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One shard's state, and the shards that it waits for."""

    shard_id: str
    state: State
    waits_for: tuple[str, ...] = ()
    """The nearest ancestors that are neither drained nor trimmed, sorted."""
    shard: Shard | None = None
    """As listed; None if it is not."""


@dataclass(frozen=True)
class Lineage:
    """The standings of all shards of a stream, each parent before its children."""

    standings: Mapping[str, Standing]
    gaps: tuple[str, ...]
    """Known, not drained, and gone: their unread records are lost. A policy decides."""

    def __getitem__(self, shard_id: str) -> Standing:
        return self.standings[shard_id]

    def ids(self, state: State) -> tuple[str, ...]:
        """Return the shards in a state, each parent before its children."""
        return tuple(s.shard_id for s in self.standings.values() if s.state is state)

    @cached_property
    def readable(self) -> tuple[Shard, ...]:
        """The shards that may be read: closed before open, those that closed earlier first."""
        shards = [s.shard for s in self.standings.values() if s.state is State.READABLE and s.shard]
        return tuple(sorted(shards, key=_closing_order))

    @cached_property
    def undiscovered(self) -> tuple[str, ...]:
        """The shards to ask the service for, one by one."""
        return self.ids(State.UNDISCOVERED)


def trace(
    listed: Iterable[Shard],
    *,
    drained: AbstractSet[str] = frozenset(),
    known: AbstractSet[str] = frozenset(),
    gone: AbstractSet[str] = frozenset(),
) -> Lineage:
    """Return the standing of every shard, from a listing and from our own records.

    `known` are shards with a position in our records. `gone` are those for which the service
    answered, one by one, that it no longer has them; a listing that shows one outranks that.
    """
    by_id = {shard.id: shard for shard in listed}
    standings: dict[str, Standing] = {}
    for shard_id in _parents_first(by_id, extra=sorted((known | drained) - by_id.keys())):
        shard = by_id.get(shard_id)
        waits_for = _waits_for(shard, standings)
        if shard_id in drained:
            state = State.DRAINED
        elif shard is None:
            state = State.TRIMMED if shard_id in gone else State.UNDISCOVERED
        else:
            state = State.WAITING if waits_for else State.READABLE
        standings[shard_id] = Standing(shard_id, state, waits_for, shard)
    gaps = tuple(
        s.shard_id for s in standings.values() if s.state is State.TRIMMED and s.shard_id in known
    )
    return Lineage(standings, gaps)


def children_of(listed: Iterable[Shard]) -> dict[str, tuple[str, ...]]:
    """Return the ids of each parent's children, in the order of the listing."""
    children: dict[str, list[str]] = {}
    for shard in listed:
        for parent in shard.parents:
            children.setdefault(parent, []).append(shard.id)
    return {parent: tuple(ids) for parent, ids in children.items()}


def marks_in_use(listed: Iterable[Shard], drained: AbstractSet[str]) -> frozenset[str]:
    """Return the drained marks that lineage still needs: of listed shards and of their parents."""
    shards = tuple(listed)
    named = {shard.id for shard in shards} | {parent for s in shards for parent in s.parents}
    return frozenset(drained & named)


def descends(
    shard_id: str, ancestors: Container[str], parents_of: Callable[[str], Iterable[str]]
) -> bool:
    """Return true if one of these shards is an ancestor of a shard.

    A shard expires after its ancestors. So a listing that lacks a shard and shows an ancestor of
    it is older than the shard, and its machine's "not found" does not mean that it expired.
    """
    frontier, seen = list(parents_of(shard_id)), set[str]()
    while frontier:
        ancestor = frontier.pop()
        if ancestor in ancestors:
            return True
        if ancestor not in seen:
            seen.add(ancestor)
            frontier.extend(parents_of(ancestor))
    return False


def uncovered(listed: Iterable[Shard]) -> tuple[HashRange, ...]:
    """Return the parts of the hash space that no shard without children covers.

    There are none in a whole listing: every hash key belongs to one leaf. A hole means that
    the listing was cut or is stale, so list again before trusting it.
    """
    shards = tuple(listed)
    with_children = children_of(shards).keys()
    leaves = [s.hash_range for s in shards if s.hash_range and s.id not in with_children]
    leaves.sort(key=lambda leaf: leaf.start)
    holes: list[HashRange] = []
    reached = -1
    for leaf in leaves:
        if leaf.start > reached + 1:
            holes.append(HashRange(reached + 1, leaf.start - 1))
        reached = max(reached, leaf.end)
    if leaves and reached < HASH_SPACE_END:
        holes.append(HashRange(reached + 1, HASH_SPACE_END))
    return tuple(holes)


def _waits_for(shard: Shard | None, standings: Mapping[str, Standing]) -> tuple[str, ...]:
    if shard is None or not shard.parents:
        return ()
    waits_for: set[str] = set()
    for parent in shard.parents:
        standing = standings.get(parent)
        if standing is None:  # only in a listing that contradicts itself by naming a cycle
            waits_for.add(parent)
        elif standing.state in {State.DRAINED, State.TRIMMED}:
            # A drained shard above one that is not: records restored from different moments.
            # The oldest unfinished ancestor still comes first.
            waits_for.update(standing.waits_for)
        else:
            waits_for.add(parent)
    return tuple(sorted(waits_for))


def _parents_first(by_id: Mapping[str, Shard], extra: Iterable[str]) -> list[str]:
    """Return all ids, those that are only named included, parents first."""
    ordered: list[str] = []
    entered: set[str] = set()
    for root in (*by_id, *extra):
        if root in entered:
            continue
        known = by_id.get(root)
        if known is None or entered.issuperset(known.parents):
            entered.add(root)  # as in most listings, where parents already come first
            ordered.append(root)
            continue
        stack = [(root, False)]
        while stack:
            shard_id, parents_done = stack.pop()
            if parents_done:
                ordered.append(shard_id)
            elif shard_id not in entered:
                entered.add(shard_id)
                stack.append((shard_id, True))
                shard = by_id.get(shard_id)
                stack.extend((parent, False) for parent in (shard.parents if shard else ()))
    return ordered


def _closing_order(shard: Shard) -> tuple[bool, int, int, str]:
    last = int(shard.last) if shard.last else 0
    first = int(shard.first) if shard.first else 0
    return (not shard.closed, last, first, shard.id)
