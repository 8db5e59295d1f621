"""What leases and listings cost: calls and money of a shard and hour, for fleets of four sizes.

Shipped `Coordinator`s share a table in memory that counts, in virtual time (`bench.leasing_fleet`).
Every shard makes progress all the time, so that every checkpoint that may be written is.
"""

from __future__ import annotations

import gc
import logging
from typing import Any, Final

from bench.leasing_fleet import Costs, Fleet
from shardline.core.leasing.times import LeaseTimes
from shardline.services.pace import ShardPace

TIMES: Final = LeaseTimes(lease_seconds=10.0, checkpoint_seconds=5.0)
"""The defaults of `shardline run`."""
FLEETS: Final = {10: 2, 100: 5, 1_000: 20, 10_000: 100}
"""Shards, and the workers that share them."""
QUICK_FLEETS: Final = (10, 100)
SECONDS, LARGE_SECONDS = 120.0, 30.0
"""Of virtual time that are counted; the second for more than a thousand shards."""
SETTLING_SECONDS: Final = 120.0
WRITE_UNIT_DOLLARS: Final = 0.625e-6
READ_UNIT_DOLLARS: Final = 0.125e-6
"""DynamoDB on demand, us-east-1, standard tables, list price since November 2024."""
HOURS_PER_MONTH: Final = 730
KCL_RENEWALS: Final = 1_088
"""The KCL renews each lease every 3,308 ms with its default failover time of ten seconds."""
TITLES: Final = {
    "checkpoint_writes": "writes of lease rows (a checkpoint every 5 s at most)",
    "heartbeat_writes": "writes of heartbeats and headers",
    "read_units": "DynamoDB read units",
    "list_calls": "ListShards calls",
    "describe_calls": "DescribeStreamSummary calls",
    "get_records_calls": "GetRecords calls, near the tip",
    "dollars_per_month": "DynamoDB, $ a shard and month",
    "kcl_writes": "KCL: renewals of leases, and the same checkpoints",
    "kcl_dollars_per_month": "KCL: $ a shard and month for those writes",
}


def measure(*, quick: bool = False) -> dict[str, Any]:
    """Return the calls of every fleet, for each shard and hour."""
    logging.disable(logging.CRITICAL)
    gc.disable()  # it would look at the rows of all workers again and again
    sizes = QUICK_FLEETS if quick else tuple(FLEETS)
    measured: dict[str, Any] = {str(shards): _measure(shards, FLEETS[shards]) for shards in sizes}
    return {"titles": TITLES, **measured}


def _measure(shards: int, workers: int) -> dict[str, float]:
    fleet = Fleet(shards, workers, times=TIMES)
    fleet.run_until_settled(SETTLING_SECONDS)
    fleet.run_until(fleet.now + TIMES.checkpoint_seconds)
    fleet.table.costs = Costs()
    fleet.listing.calls.clear()
    seconds = LARGE_SECONDS if shards > 1_000 else SECONDS
    fleet.run_until(fleet.now + seconds)
    costs, shard_hours = fleet.table.costs, shards * seconds / 3600
    rows = costs.writes["rows"] / shard_hours
    beats = (costs.writes["heartbeats"] + costs.writes["headers"]) / shard_hours
    reads = costs.read_units / shard_hours
    kcl_writes = KCL_RENEWALS + 3600 / TIMES.checkpoint_seconds
    found = {
        "workers": workers,
        "checkpoint_writes": rows,
        "heartbeat_writes": beats,
        "read_units": reads,
        "list_calls": fleet.listing.calls["list"] / shard_hours,
        "describe_calls": fleet.listing.calls["describe"] / shard_hours,
        "get_records_calls": _reads_near_tip(),
        "dollars_per_month": _dollars(rows + beats, reads),
        "kcl_writes": kcl_writes,
        "kcl_dollars_per_month": _dollars(kcl_writes, 0),
    }
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def _dollars(writes: float, reads: float) -> float:
    return (writes * WRITE_UNIT_DOLLARS + reads * READ_UNIT_DOLLARS) * HOURS_PER_MONTH


def _reads_near_tip() -> float:
    """Return how often a shard is read in an hour when a few records come all the time."""
    pace, now, calls = ShardPace(), 0.0, 0
    while now < 3600:
        now += pace.wait_seconds(now)
        pace.sent(now)
        pace.received(now, records=1, size_bytes=1_000, behind_ms=0)
        calls += 1
    return calls
