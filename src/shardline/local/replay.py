"""Rebuilds the state of the service from its journal, with the same numbers, times and shards.

Operations are executed again at their original time; records go back to their original place.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.errors import ConfigurationError
from shardline.local.dynamodb_streams.control import control
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.clock import Clock
    from shardline.local.dynamodb.database import Database
    from shardline.local.dynamodb_streams.control import Tables
    from shardline.local.journal import Entry, Journal
    from shardline.local.kinesis.operations import Kinesis
    from shardline.local.kinesis.streams import Stream

_NO_LIMIT: Final = 2**63
CLOCK: Final = "clock"
OPERATION: Final = "kinesis"
RECORDS: Final = "records"
TABLE: Final = "table"
DATABASE: Final = "database"


_DAMAGES: Final = (
    Refusal,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
    sqlite3.Error,
)
"""What the content of a damaged entry can raise."""


def restore(
    journal: Journal, clock: Clock, kinesis: Kinesis, tables: Tables, database: Database
) -> None:
    """Apply every entry of the journal, and delete the data of trimmed records from the file.

    Raises `ConfigurationError` if the journal is damaged.
    """
    settings = kinesis.account.settings
    configured = replace(settings)
    settings.shard_limit = _NO_LIMIT
    applied = 0
    try:
        written: list[tuple[Entry, Stream]] = []
        latest_ms = 0
        with closing(journal.entries()) as entries:
            for entry in entries:
                latest_ms = max(latest_ms, entry.at_ms)
                stream = _apply(entry, kinesis, tables, database)
                if stream is not None:
                    written.append((entry, stream))
                applied += 1
        lag_ms = latest_ms - clock.now_ms()
        if lag_ms > 0:  # the clock had been advanced
            clock.advance(lag_ms / 1000)
        _drop_trimmed(journal, kinesis, written, clock.now_ms())
    except _DAMAGES as damage:
        journal.close()
        raise ConfigurationError(
            f"cannot restore {journal.path}: it is damaged after entry {applied} "
            f"({type(damage).__name__}: {str(damage)[:200]}): move it away, or use another file"
        ) from None
    settings.status_delay_ms = configured.status_delay_ms
    settings.shard_limit = configured.shard_limit


def _apply(entry: Entry, kinesis: Kinesis, tables: Tables, database: Database) -> Stream | None:
    """Apply one entry, and return the stream of restored records."""
    match entry.kind:
        case "kinesis":
            operation, request, kinesis.account.settings.status_delay_ms = entry.content
            kinesis.replay(operation, request, entry.at_ms)
        case "records":
            return _restore_records(kinesis, entry)
        case "table":
            operation, request = entry.content
            with tables.at(entry.at_ms):
                control(tables, operation, request)
        case "database":
            database.replay(entry.content, entry.at_ms)
        case "clock":
            pass
        case _:
            raise ValueError(f"unknown kind of entry: {entry.kind!r}")
    return None


def _restore_records(kinesis: Kinesis, entry: Entry) -> Stream:
    name, records = entry.content
    stream = kinesis.account.find(name, entry.at_ms)
    for shard_index, tick, size_bytes, fragment in records:
        if fragment is not None:
            ticks = range(tick, tick + 1)
            stream.shards[shard_index].append(ticks, entry.at_ms, [fragment], [size_bytes])
        stream.next_tick = tick + 1
    return stream


def _drop_trimmed(
    journal: Journal, kinesis: Kinesis, written: list[tuple[Entry, Stream]], now_ms: int
) -> None:
    """Remove the data of trimmed records from their entries; the last sequence number stays."""
    kept = {id(stream): stream for stream in kinesis.account.streams(now_ms)}
    for entry, stream in written:
        name, records = entry.content
        gone = id(stream) not in kept or entry.at_ms <= stream.horizon_ms
        if gone and records[-1][3] is not None:
            shard_index, tick, _, _ = records[-1]
            emptied: list[Any] = [name, [(shard_index, tick, 0, None)]]
            journal.replace(entry.place, emptied)
    journal.commit()
