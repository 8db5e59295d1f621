"""A dead letter, and the one format in which every place keeps it and every reader reads it.

A letter is a line of JSON that ends with a checksum of what is before it, so that half a line, or
two that were glued together, are never taken for a letter. A place that has no room for a whole
letter is given it in parts, each of them such a line. `Assembly` puts lines together again, in
whichever order they come.

Letters are never changed. A letter with the same id and a higher fence replaces it, and a
`Redriven` mark with the same or a higher fence says that it was processed after all.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from shardline.consumer.keys import keys_of
from shardline.core.fences import Fence
from shardline.errors import ConfigurationError
from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS, SUB_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.consumer.consumer import ShardBatch

VERSION: Final = 1
LONGEST_REASON: Final = 2_000
"""Characters: a reason may hold a whole page of HTML."""
_CHECK_BYTES: Final = len(b',"check":"00000000"}')
_PART_OVERHEAD_BYTES: Final = 2_000
"""For the fields of a part beside its text."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records come from, beyond their shard."""

    app: str = ""
    stream: str = ""


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that was given up on, with where it came from and why it is here."""

    id: str
    app: str
    stream: str
    shard_id: str
    key: str
    """The partition key, or the hash key's value in the service's JSON: what a key is parked by."""
    parked: bool
    """True if the key was parked with this letter, or before it."""
    fence: Fence
    """Of the write: a letter that is written again has a higher one."""
    reason: str
    written_at: str
    """An ISO time, by the clock of the worker."""
    record: dict[str, Any]
    """The record's columns; bytes as `{"base64": …}`, times in ISO format."""

    @property
    def sequence_number(self) -> str:
        """The record's place in its shard; compare as a number, never as text."""
        return str(self.record["sequenceNumber"])

    @property
    def place(self) -> tuple[int, int]:
        """The order in which the records of a key were written, also through splits and merges."""
        return int(self.sequence_number), int(self.record.get("subSequenceNumber") or 0)

    @property
    def payload(self) -> bytes:
        """The record's data, or its newest image as JSON."""
        match self.record.get("data"):
            case {"base64": str(text)}:
                return b64decode(text)
        return str(self.record.get("newImage") or self.record.get("oldImage") or "").encode()

    def to_bytes(self) -> bytes:
        """Return the letter as one line, without its end."""
        return _checked(
            {
                "shardline": "letter",
                "version": VERSION,
                "id": self.id,
                "app": self.app,
                "stream": self.stream,
                "shardId": self.shard_id,
                "key": self.key,
                "parked": self.parked,
                "fence": list(self.fence),
                "reason": self.reason,
                "writtenAt": self.written_at,
                "record": self.record,
            }
        )


@dataclass(frozen=True, slots=True)
class Redriven:
    """A mark that a letter was processed after all."""

    id: str
    fence: Fence

    def to_bytes(self) -> bytes:
        """Return the mark as one line, without its end."""
        return _checked(
            {
                "shardline": "redriven",
                "version": VERSION,
                "id": self.id,
                "fence": list(self.fence),
            }
        )


def letters_for(
    batch: ShardBatch,
    reason: str,
    origin: Origin,
    at: datetime,
    *,
    parked: bool = False,
    hash_key: str | None = None,
) -> list[Letter]:
    """Return a letter for each record of a batch; see `LetterWriter.write`."""
    try:
        keys = keys_of(batch.arrow, hash_key).to_pylist()
    except ConfigurationError:  # A letter is written in any case: the whole key is as good.
        keys = batch.arrow.column("keys").to_pylist()
    prefix = "/".join(filter(None, (origin.app, origin.stream, batch.shard_id)))
    reason = reason[:LONGEST_REASON].encode(errors="backslashreplace").decode()
    return [
        Letter(
            id=f"{prefix}/{row['sequenceNumber']}/{row.get('subSequenceNumber') or 0}",
            app=origin.app,
            stream=origin.stream,
            shard_id=batch.shard_id,
            key=key,
            parked=parked,
            fence=batch.fence,
            reason=reason,
            written_at=at.isoformat(timespec="milliseconds"),
            record={name: _to_json(value) for name, value in row.items()},
        )
        for key, row in zip(keys, batch.arrow.to_pylist(), strict=True)
    ]


def records_of_letters(letters: Iterable[Letter]) -> pa.RecordBatch:
    """Return the records of letters of one shard, with the columns in which they were read."""
    rows = [{k: _from_json(v) for k, v in letter.record.items()} for letter in letters]
    names = rows[0] if rows else {}
    schema = DYNAMODB_COLUMNS if "keys" in names else KINESIS_COLUMNS
    if "subSequenceNumber" in names:
        schema = schema.append(SUB_SEQUENCE)
    for row in rows:
        for name in schema.names:
            if pa.types.is_timestamp(schema.field(name).type):
                row[name] = datetime.fromisoformat(row[name])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


# --- lines ------------------------------------------------------------------------------------


def in_parts(letter: Letter, most_bytes: int) -> list[bytes]:
    """Return the letter as lines of at most `most_bytes` each: one if it fits."""
    whole = letter.to_bytes()
    if len(whole) <= most_bytes:
        return [whole]
    size = (most_bytes - _PART_OVERHEAD_BYTES - len(letter.id)) // 4 * 3
    pieces = [whole[begin : begin + size] for begin in range(0, len(whole), size)]
    return [
        _checked(
            {
                "shardline": "letter part",
                "version": VERSION,
                "id": letter.id,
                "fence": list(letter.fence),
                "part": number,
                "parts": len(pieces),
                "text": b64encode(piece).decode(),
            }
        )
        for number, piece in enumerate(pieces)
    ]


class Assembly:
    """The letters that are waiting in a place, put together from its lines in any order."""

    def __init__(self, most: int | None = None) -> None:
        """Keep at most so many letters: the newest by the order in which they come."""
        self._most = most
        self._letters: dict[str, Letter] = {}
        self._redriven: dict[str, Fence] = {}
        self._parts: dict[tuple[str, Fence], dict[int, bytes]] = {}
        self.unreadable = 0
        """Lines that are no line of ours, or are damaged."""

    def add(self, line: bytes) -> Letter | None:
        """Take a line in; return the letter that it completes, if it is one that waits."""
        document = _read(line) or {}
        match document:
            case {"shardline": "letter part", "part": int(part), "parts": int(parts)}:
                id_and_fence = (str(document["id"]), Fence(*document["fence"]))
                found = self._parts.setdefault(id_and_fence, {})
                found[part] = b64decode(document["text"])
                self._trim(self._parts)
                if len(found) < parts:
                    return None
                del self._parts[id_and_fence]
                return self.add(b"".join(found[number] for number in range(parts)))
            case {"shardline": "redriven"}:
                self._mark(str(document["id"]), Fence(*document["fence"]))
                return None
            case {"shardline": "letter"}:
                return self._keep(_letter(document))
        self.unreadable += 1
        return None

    @property
    def incomplete(self) -> int:
        """How many letters miss a part."""
        return len(self._parts)

    def letters(self) -> list[Letter]:
        """Return the letters that wait: by stream, the records of a key as they were written."""
        return sorted(self._letters.values(), key=lambda x: (x.app, x.stream, *x.place, x.shard_id))

    def newest(self) -> list[Letter]:
        """Return the letters that wait, in the order in which they came."""
        return list(self._letters.values())

    def _keep(self, letter: Letter) -> Letter | None:
        known = self._letters.get(letter.id)
        if letter.fence <= self._redriven.get(letter.id, Fence(-1, -1)):
            return None
        if known is not None and known.fence > letter.fence:
            return None
        self._letters.pop(letter.id, None)
        self._letters[letter.id] = letter
        self._trim(self._letters)
        return letter

    def _mark(self, letter_id: str, fence: Fence) -> None:
        self._redriven[letter_id] = max(fence, self._redriven.get(letter_id, fence))
        known = self._letters.get(letter_id)
        if known is not None and known.fence <= fence:
            del self._letters[letter_id]
        self._trim(self._redriven)

    def _trim(self, kept: dict[Any, Any]) -> None:
        while self._most is not None and len(kept) > self._most:
            del kept[next(iter(kept))]


def _checked(document: dict[str, Any]) -> bytes:
    body = msgspec.json.encode(document)[:-1]
    return body + b',"check":"%08x"}' % zlib.crc32(body)


def _read(line: bytes) -> dict[str, Any] | None:
    """Return a whole line of ours as values, or None."""
    body, check = line[:-_CHECK_BYTES], line[-_CHECK_BYTES:]
    if check != b',"check":"%08x"}' % zlib.crc32(body):
        return None
    try:
        document = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    return document if document.get("version") == VERSION else None


def _letter(document: dict[str, Any]) -> Letter:
    return Letter(
        id=document["id"],
        app=document["app"],
        stream=document["stream"],
        shard_id=document["shardId"],
        key=document["key"],
        parked=document["parked"],
        fence=Fence(*document["fence"]),
        reason=document["reason"],
        written_at=document["writtenAt"],
        record=document["record"],
    )


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def _from_json(value: Any) -> Any:
    match value:
        case {"base64": str(text)}:
            return b64decode(text)
    return value
