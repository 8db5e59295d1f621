"""Writes records to a stream from Python, each key in its order."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from shardline.core.writes.entries import MIB, make_entry
from shardline.core.writes.order import WriteOrder
from shardline.errors import ConfigurationError, ShardlineError
from shardline.services.access import Access
from shardline.services.clock import boot_seconds
from shardline.services.put.sender import send_steps
from shardline.services.put.stream import PutStream, connect_to_put
from shardline.services.records import KinesisRecord
from shardline.services.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shardline.core.writes.entries import Entry

PACKED_BYTES: Final = 50 * 1024
"""The size up to which records of one key are packed into one, as in the Producer Library."""
_BACKLOG_BYTES: Final = 32 * MIB
_BACKLOG_RECORDS: Final = 20_000
_LONGEST_CALL_SECONDS: Final = 40.0


@dataclass(frozen=True, slots=True)
class PutResult:
    """What was written."""

    records: int
    """The number of records that the stream accepted: all that were given."""
    calls: int
    refused: int
    """How often an entry of a call was refused, and put again later."""
    last: dict[str, str] = field(default_factory=dict)
    """The last sequence number in each shard that took a record."""


class Writer:
    """Writes records in the background, each key in its order. Make one with `shardline.writer`.

    For use by one thread. Leaving the `with` block waits until the stream has accepted every
    record; after an exception in the block, records that were not sent yet are not written.
    """

    def __init__(
        self,
        stream: PutStream,
        *,
        aggregate: bool = False,
        give_up_seconds: float = 120.0,
        connections: int = 2,
        owns_stream: bool = True,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        if connections < 1:
            raise ConfigurationError("connections: pass at least 1")
        self._stream = stream
        self._owns_stream = owns_stream
        self._order = WriteOrder(
            stream.shards,
            give_up_seconds=give_up_seconds,
            packed_bytes=PACKED_BYTES if aggregate else 0,
            spread=random.random(),  # noqa: S311 - keeps writers apart
        )
        self._clock = clock
        self._changed = threading.Condition()
        self._changes = 0
        self._ended = False
        self._error: Exception | None = None
        self._threads = [
            threading.Thread(target=self._send, name=f"shardline-put-{number}", daemon=True)
            for number in range(connections)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, key: str, data: bytes | str, explicit_hash_key: str | None = None) -> None:
        """Write a record after all others of its key. A text is written as UTF-8.

        Returns when there is room for it, mostly at once, and not when it is written: see `flush`.
        Raises what made the writer fail, if it has failed: no later record of a key is written
        where an earlier one was not.
        """
        entry = _entry((key, data, explicit_hash_key))
        with self._changed:
            if self._add(entry):
                self._notify()

    def put_all(self, entries: Iterable[Entry]) -> None:
        """Write records in their order; `put` says what is waited for."""
        with self._changed:
            for entry in entries:
                self._add(entry)
            self._require_alive()
            self._notify()

    def flush(self) -> PutResult:
        """Wait until the stream has accepted every record, and return what was written so far."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or self._order.is_empty)
            self._require_alive()
            written = self._order.written
            return PutResult(written.records, written.calls, written.refused, dict(written.last))

    def close(self) -> None:
        """Stop after the calls that are under way, without waiting for what is not sent yet."""
        with self._changed:
            self._error = self._error or ShardlineError("this writer was closed: make another")
            self._ended = True
            self._notify()
        if self._owns_stream:
            self._stream.close()  # first, so that a call that fails is not tried again
        for thread in self._threads:
            thread.join(_LONGEST_CALL_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def _add(self, entry: Entry) -> bool:
        """Add a record when there is room; return true if the senders must be notified."""
        order = self._order
        if order.backlog_records >= _BACKLOG_RECORDS or order.backlog_bytes > _BACKLOG_BYTES:
            self._notify()
            self._changed.wait_for(self._has_room)
        self._require_alive()
        return order.add(entry)

    def _send(self) -> None:
        seen = 0

        def note_changes() -> None:
            nonlocal seen
            seen = self._changes

        def sleep(seconds: float) -> None:
            with self._changed:
                self._changed.wait_for(lambda: self._error or self._changes != seen, seconds)
                self._require_alive()

        steps = send_steps(
            self._order,
            self._stream,
            self._clock,
            ended=lambda: self._ended,
            on_answer=self._answered,
            on_pause=note_changes,
        )
        try:
            run(steps, lock=self._changed, sleep=sleep)
        except Exception as error:
            with self._changed:
                self._error = self._error or error
                self._notify()

    def _answered(self) -> None:
        self._require_alive()
        self._notify()

    def _notify(self) -> None:
        self._changes += 1
        self._changed.notify_all()

    def _has_room(self) -> bool:
        order = self._order
        return self._error is not None or (
            order.backlog_records < _BACKLOG_RECORDS // 2 and order.backlog_bytes < _BACKLOG_BYTES
        )

    def _require_alive(self) -> None:
        if self._error is not None:
            raise self._error


PutRecord = tuple[str, bytes | str] | tuple[str, bytes | str, str | None] | KinesisRecord
"""A key and its data, perhaps with an explicit hash key; or a record that was read."""


def writer(
    address: str,
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    role_arn: str | None = None,
    external_id: str | None = None,
    aggregate: bool = False,
    give_up_seconds: float = 120.0,
    connections: int = 2,
) -> Writer:
    """Return a writer to the stream at `kinesis://name`, to be used in a `with` block.

    With `aggregate`, records of one key that wait together are packed into one, as the Kinesis
    Producer Library does. When a shard refuses a record for `give_up_seconds`, the writer fails.
    """
    access = Access(region, endpoint_url, profile, role_arn, external_id)
    return Writer(
        connect_to_put(address, access),
        aggregate=aggregate,
        give_up_seconds=give_up_seconds,
        connections=connections,
    )


def put(
    address: str,
    records: Iterable[PutRecord],
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    role_arn: str | None = None,
    external_id: str | None = None,
    aggregate: bool = False,
    give_up_seconds: float = 120.0,
    connections: int = 2,
) -> PutResult:
    """Write records to the stream at `kinesis://name`, each key in the order given; then return.

    A record is `(key, data)`, `(key, data, explicit_hash_key)` or a record that was read from
    another stream. Each is written at least once: if an answer is lost, the record may come twice,
    directly after itself. The other options are those of `shardline.writer`.
    """
    opened = writer(
        address,
        region=region,
        endpoint_url=endpoint_url,
        profile=profile,
        role_arn=role_arn,
        external_id=external_id,
        aggregate=aggregate,
        give_up_seconds=give_up_seconds,
        connections=connections,
    )
    with opened:
        for record in records:
            opened.put_all((_entry(record),))
        return opened.flush()


def _entry(record: PutRecord) -> Entry:
    if isinstance(record, KinesisRecord):
        return make_entry(record.partition_key, record.data)
    key, data, *rest = record
    return make_entry(key, data.encode() if isinstance(data, str) else data, *rest)
