"""One table: its schema, and its items in the order in which queries and scans read them."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import msgspec

from shardline.core.shards import HASH_SPACE_END, hash_key_of
from shardline.local.dynamodb.values import (
    Item,
    Value,
    invalid,
    kind_of,
    normalize_item,
    order_of,
    size_of_item,
)

Key = tuple[str, Any]
"""An item's identity: its hash key as text, and what orders its range key."""

_FIVE_YEARS_MS: Final = 5 * 365 * 24 * 3600 * 1000
"""Times to live further in the past than this are ignored, as the service documents."""
_MOST_HASH_BYTES: Final = 2048
_MOST_RANGE_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class Schema:
    """The key attributes of a table."""

    hash_name: str
    range_name: str | None
    types: dict[str, str]
    """The types of the key attributes: S, N or B."""

    @property
    def names(self) -> tuple[str, ...]:
        """The key attributes, the hash key first."""
        return (self.hash_name,) if self.range_name is None else (self.hash_name, self.range_name)

    def check_item(self, item: Item) -> None:
        """Raise a refusal if an item lacks a key attribute or has one of another type."""
        for name in self.names:
            if name not in item:
                raise invalid(
                    f"One or more parameter values were invalid: Missing the key {name} in the item"
                )
            if kind_of(item[name]) != self.types[name]:
                raise invalid(
                    "One or more parameter values were invalid: Type mismatch for key "
                    f"{name} expected: {self.types[name]} actual: {kind_of(item[name])}"
                )
            self.check_not_empty(name, item[name])

    def read_key(self, key: object) -> Item:
        """Return the key of a request. Raises a refusal if it does not match the schema."""
        values = normalize_item(key)
        if set(values) != set(self.names) or any(
            kind_of(values[name]) != self.types[name] for name in self.names
        ):
            raise invalid("The provided key element does not match the schema")
        for name in self.names:
            self.check_not_empty(name, values[name])
        return values

    def check_not_empty(self, name: str, value: Value) -> None:
        """Raise a refusal for an empty key value, or one that is too long."""
        [(kind, content)] = value.items()
        if kind == "N":
            return
        if not content:
            noun = "string" if kind == "S" else "binary"
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key "
                f"attribute cannot contain an empty {noun} value. Key: {name}"
            )
        most = _MOST_HASH_BYTES if name == self.hash_name else _MOST_RANGE_BYTES
        if len(order_of(value)) > most:
            noun = "hashkey" if name == self.hash_name else "rangekey"
            raise invalid(
                f"One or more parameter values were invalid: Size of {noun} has exceeded the "
                f"maximum size limit of{most} bytes"
            )

    def key_of(self, item: Item) -> Item:
        """Return the key attributes of an item."""
        return {name: item[name] for name in self.names}

    def identity(self, item: Item) -> Key:
        """Return what identifies an item in its table."""
        hash_text = msgspec.json.encode(item[self.hash_name]).decode()
        return hash_text, order_of(item[self.range_name]) if self.range_name else b""


@dataclass(slots=True)
class _Partition:
    """The items of one hash key, by their range keys."""

    items: dict[Any, Item] = field(default_factory=dict)
    order: list[Any] = field(default_factory=list)


class StoredItems:
    """The items of a table. Iterates in the order of a scan: by the hash of the hash key."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._partitions: dict[str, _Partition] = {}
        self._order: list[tuple[int, str]] = []
        self._count = 0
        self.size_bytes = 0
        """The size of all items as the service counts it."""

    def __len__(self) -> int:
        return self._count

    def get(self, key: Item) -> Item | None:
        """Return the item with this key (or with the key of this item)."""
        hash_text, range_order = self._schema.identity(key)
        partition = self._partitions.get(hash_text)
        return None if partition is None else partition.items.get(range_order)

    def put(self, item: Item) -> None:
        """Store an item in the place of the one with its key."""
        hash_text, range_order = self._schema.identity(item)
        partition = self._partitions.get(hash_text)
        if partition is None:
            partition = self._partitions[hash_text] = _Partition()
            insort(self._order, (hash_key_of(hash_text), hash_text))
        if range_order in partition.items:
            self.size_bytes -= size_of_item(partition.items[range_order])
        else:
            insort(partition.order, range_order)
            self._count += 1
        partition.items[range_order] = item
        self.size_bytes += size_of_item(item)

    def delete(self, key: Item) -> None:
        """Remove the item with this key."""
        hash_text, range_order = self._schema.identity(key)
        partition = self._partitions[hash_text]
        self.size_bytes -= size_of_item(partition.items.pop(range_order))
        del partition.order[bisect_left(partition.order, range_order)]
        self._count -= 1
        if not partition.items:
            del self._partitions[hash_text]
            del self._order[bisect_left(self._order, (hash_key_of(hash_text), hash_text))]

    def of_hash(
        self, hash_value: Value, after: Item | None = None, *, forward: bool = True
    ) -> Iterator[Item]:
        """Yield the items of one hash key by their range keys, after the one with a key."""
        partition = self._partitions.get(msgspec.json.encode(hash_value).decode(), _Partition())
        order = partition.order
        if after is not None:
            _, place = self._schema.identity(after)
            order = (
                order[bisect_right(order, place) :]
                if forward
                else order[: bisect_left(order, place)]
            )
        for range_order in order if forward else reversed(order):
            yield partition.items[range_order]

    def scan(
        self, after: Item | None = None, *, segment: int = 0, segments: int = 1
    ) -> Iterator[Item]:
        """Yield the items of one of several segments, after the one with a key."""
        first = (HASH_SPACE_END + 1) * segment // segments
        end = (HASH_SPACE_END + 1) * (segment + 1) // segments
        start = bisect_left(self._order, (first, ""))
        stop = bisect_left(self._order, (end, ""))
        if after is not None:
            hash_text, _ = self._schema.identity(after)
            place = (hash_key_of(hash_text), hash_text)
            yield from self.of_hash(after[self._schema.hash_name], after)
            start = bisect_right(self._order, place)
        for _, hash_text in self._order[start:stop]:
            partition = self._partitions[hash_text]
            for range_order in partition.order:
                yield partition.items[range_order]


class TimeToLive:
    """Which items expire when, by the attribute that holds their time in seconds since 1970."""

    def __init__(self, attribute: str, items: StoredItems) -> None:
        self.attribute: Final = attribute
        self._due: list[tuple[Decimal, int, Item]] = []
        self._pushed = 0
        for item in items.scan():
            self.note(item)

    def note(self, item: Item) -> None:
        """Record an item that was stored."""
        time = item.get(self.attribute, {}).get("N")
        if time is not None:
            self._pushed += 1
            heapq.heappush(self._due, (Decimal(time), self._pushed, item))

    def expired(self, items: StoredItems, now_ms: int) -> list[Item]:
        """Return the items that have expired, and forget them."""
        found = []
        while self._due and self._due[0][0] * 1000 <= now_ms:
            time, _, item = heapq.heappop(self._due)
            # Only the version that is still stored, and none from too long ago.
            if items.get(item) is item and now_ms - time * 1000 <= _FIVE_YEARS_MS:
                found.append(item)
        return found
