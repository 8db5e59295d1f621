"""Changes of items and their stored form in the embedded DynamoDB Streams."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from shardline.local.refusals import Refusal

DIGITS: Final = 21
"""Sequence numbers are padded to this many digits; the SDK refuses shorter ones."""

ViewType = Literal["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"]
EventName = Literal["INSERT", "MODIFY", "REMOVE"]

Item = dict[str, dict[str, Any]]
"""Attributes as DynamoDB writes them: {"id": {"S": "a"}}."""

_TTL_IDENTITY: Final = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an item, as given by the caller."""

    keys: Item
    old: Item | None = None
    new: Item | None = None
    event_name: EventName | None = None
    """Derived from the images if not given."""
    at: datetime | None = None
    """The creation time of the change, which may go backwards; default: the service's time."""
    by_ttl: bool = False
    """True for a deletion by the service because the time to live was over."""
    shard: str | None = None
    """An open shard for the change, independent of its hash key; for tests of readers."""
    sequence_number: str | None = None
    """A number above the shard's newest one; default: the next number of the stream."""

    @property
    def event(self) -> EventName:
        """The event's name."""
        if self.event_name is not None:
            return self.event_name
        if self.old is None and self.new is None:
            raise Refusal("ValidationException", "Give an old image, a new one, or an event_name")
        if self.old is None:
            return "INSERT"
        return "REMOVE" if self.new is None else "MODIFY"


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A stored change, encoded for the wire."""

    number: int
    put_ms: int
    """The arrival time, which decides about trimming; independent of the creation time."""
    created_seconds: int
    size_bytes: int
    body: bytes


def store(change: Change, number: int, arn: str, view_type: ViewType, now_ms: int) -> StoredChange:
    """Return a change in stored form, with the images of the stream's view type."""
    new = change.new if view_type in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES") else None
    old = change.old if view_type in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES") else None
    size = sum(_item_size(item) for item in (change.keys, new, old) if item is not None)
    # The service rounds creation times down to the second.
    created_seconds = now_ms // 1000 if change.at is None else int(change.at.timestamp() // 1)
    images = {"NewImage": new, "OldImage": old}
    record: dict[str, Any] = {
        "eventID": hashlib.sha256(f"{arn}{number}".encode()).hexdigest()[:32],
        "eventName": change.event,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": arn.split(":")[3],
        "dynamodb": {
            "ApproximateCreationDateTime": created_seconds,
            "Keys": change.keys,
            **{name: image for name, image in images.items() if image is not None},
            "SequenceNumber": sequence_text(number),
            "SizeBytes": size,
            "StreamViewType": view_type,
        },
    }
    if change.by_ttl:
        record["userIdentity"] = _TTL_IDENTITY
    return StoredChange(number, now_ms, created_seconds, size, msgspec.json.encode(record))


def sequence_text(number: int) -> str:
    """Return a sequence number as text, padded with zeros."""
    return f"{number:0{DIGITS}d}"


def sequence_number(text: str) -> int:
    """Parse a sequence number, or raise `Refusal`."""
    if not (text.isascii() and text.isdigit()):
        raise Refusal("ValidationException", f"Invalid SequenceNumber: {text}")
    return int(text)


def _item_size(item: Item) -> int:
    # DynamoDB counts UTF-8 bytes of names and strings, half a byte per digit, 3 per container.
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(attribute: Any) -> int:
    match attribute:
        case {"S": str(text)}:
            return len(text.encode())
        case {"N": str(digits)}:
            return len(digits) // 2 + 1
        case {"B": bytes(data)}:
            return len(data)
        case {"B": str(base64)}:
            return len(base64) * 3 // 4
        case {"M": dict(item)}:
            return 3 + _item_size(item)
        case {"L": list(values)}:
            return 3 + sum(1 + _value_size(value) for value in values)
        case {"SS": list(values)} | {"NS": list(values)} | {"BS": list(values)}:
            kind = next(iter(attribute))[0]
            return sum(_value_size({kind: value}) for value in values)
        case {"BOOL": bool()} | {"NULL": True}:
            return 1
    raise Refusal(
        "ValidationException",
        f"Not an attribute value: {attribute!r} (expected one like {{'S': 'text'}})",
    )
