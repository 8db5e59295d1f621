"""A client process: reads and swaps rows of a lease table, and writes down what it saw."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from shardline.core.leasing.rows import LeaseRow
from shardline.leases.address import open_table
from shardline.leases.dynamodb import DynamoLeaseTable
from shardline.leases.port import Conflict, TableUnavailable
from shardline.leases.sql import SqlLeaseTable
from shardline.services.access import Access, make_client

if TYPE_CHECKING:
    from shardline.leases.port import LeaseTable

ROWS = 4
APP = "attack"
CREATED = datetime(2026, 11, 1, tzinfo=UTC)
WAIT_SECONDS = 0.3
"""How long a client waits for an answer; shorter than for a user, since half of them are lost."""

# What describes the service is read once, before the clients are forked off.
make_client("dynamodb", Access(endpoint_url="http://127.0.0.1:9", region="us-east-1")).close()


def run_client(
    address: str, endpoint: str, stream: str, name: str, operations: int, seed: int, log: str
) -> None:
    """Make operations until there were enough of them, and end the process."""
    os.environ.update({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    logging.disable(logging.CRITICAL)
    table = _open(address, endpoint)
    random = Random(seed)
    known: dict[str, LeaseRow | None] = {}
    with Path(log).open("a", buffering=1) as lines:
        for number in range(operations):
            shard_id = f"s{random.randrange(ROWS)}"
            swaps = shard_id in known and random.random() < 0.6
            row = known.get(shard_id)
            new = _next(row, stream, shard_id, f"{name}.{number}") if swaps else None
            call: dict[str, Any] = {"row": shard_id, "began": time.monotonic()}
            if new is not None:
                call |= {"written": new.lease_owner, "expected": row and row.lease_owner}
            lines.write(json.dumps(call) + "\n")
            try:
                if new is None:
                    found = table.read_rows(APP, stream, [shard_id]).get(shard_id)
                else:
                    table.swap_row(new, row)
                    found = new
                outcome = "done"
            except Conflict as conflict:
                current = conflict.current
                found, outcome = (current if isinstance(current, LeaseRow) else None), "refused"
                if new is not None and found == new:
                    outcome = "done"  # the adapter sent it twice: the first answer was lost
            except TableUnavailable:
                known.pop(shard_id, None)
                lines.write(json.dumps({"outcome": "unknown", "ended": time.monotonic()}) + "\n")
                continue
            known[shard_id] = found
            answer = {"outcome": outcome, "ended": time.monotonic()}
            lines.write(json.dumps(answer | {"read": found and found.lease_owner}) + "\n")
    os._exit(0)  # whatever a silent connection still waits for


def _open(address: str, endpoint: str) -> LeaseTable:
    if address.startswith("dynamodb"):
        access = Access(endpoint_url=endpoint, region="us-east-1")
        return DynamoLeaseTable(
            address.partition("://")[2], access, attempts=1, wait_seconds=WAIT_SECONDS
        )
    if address.startswith("postgresql"):
        return SqlLeaseTable(address, wait_seconds=WAIT_SECONDS)
    return open_table(address)


def _next(row: LeaseRow | None, stream: str, shard_id: str, owner: str) -> LeaseRow:
    if row is None:
        return LeaseRow(APP, stream, shard_id, CREATED, lease_owner=owner, lease_count=1)
    return replace(row, lease_owner=owner, lease_count=row.lease_count + 1)
