"""A consumer of a copy that keeps each record once, with its results in one transaction."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING

from shardline import RepeatFilter, ShardConsumer

if TYPE_CHECKING:
    from shardline import ShardBatch

RESULTS = "COPY_READER_RESULTS"
"""The variable that names the file of the results."""
MOST_DELIVERIES = "COPY_READER_MOST_DELIVERIES"
"""The variable that says after how many deliveries the consumer hangs: it is to be killed then."""


def open_results(path: str) -> sqlite3.Connection:
    """Return the results: what was kept, in the order in which it was kept."""
    results = sqlite3.connect(path, timeout=30, isolation_level=None)
    results.execute("create table if not exists last (key text primary key, place text)")
    results.execute("create table if not exists kept (key text, text text)")
    results.execute("create table if not exists deliveries (records int)")
    return results


def count(results: sqlite3.Connection, table: str) -> int:
    """Return how many rows a table of the results has."""
    ((rows,),) = results.execute(f"select count(*) from {table}")  # noqa: S608
    return int(rows)


class CopyReader(ShardConsumer):
    """Drops what is not above the last position of its key."""

    def process(self, batch: ShardBatch) -> None:
        """Keep what is new, and how far each key is."""
        with closing(open_results(os.environ[RESULTS])) as results:
            results.execute("begin immediate")
            if count(results, "deliveries") >= int(os.environ.get(MOST_DELIVERIES, sys.maxsize)):
                results.execute("rollback")
                Event().wait()
            last = {key: (int(place),) for key, place in results.execute("select * from last")}
            new = RepeatFilter[tuple[int, ...]](last)
            for record in batch.records:
                copy = json.loads(record.data)
                if new.is_new(record.partition_key, (int(copy["sequenceNumber"]),)):
                    values = (record.partition_key, copy["text"])
                    results.execute("insert into kept values (?, ?)", values)
            results.execute("insert into deliveries values (?)", (len(batch),))
            places = [(key, str(place)) for key, (place,) in new.last.items()]
            results.executemany("insert or replace into last values (?, ?)", places)
            results.execute("commit")
