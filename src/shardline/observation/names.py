"""Short names of shards and workers, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from shardline.core.leasing.rows import worker_name

_NAMED: Final = 3
_ATTEMPT_AND_UUID: Final = 2


def short_worker_name(owner: str) -> str:
    """Return a worker's name: its run and its number, without the attempt and the UUID."""
    run, separator, rest = owner.partition("/")
    if rest.count("/") == _ATTEMPT_AND_UUID:
        return f"{run}/{rest.partition('/')[0]}"
    return worker_name(owner) or (owner if separator else run)


def short_shard_id(shard_id: str) -> str:
    """Return the part of a shard id that differs between shards: …012 for shardId-000000000012."""
    prefix, separator, number = shard_id.rpartition("-")
    if not separator:
        return shard_id
    if number.isdigit() and prefix == "shardId":
        return f"…{number.lstrip('0').rjust(3, '0')}"
    return f"…{number}"


def shard_list(shard_ids: Iterable[str]) -> str:
    """Return the short ids of up to four shards, or of three and the number of the others."""
    ids = [short_shard_id(shard_id) for shard_id in shard_ids]
    if len(ids) <= _NAMED + 1:  # "and 1 more" is no shorter than the id
        return ", ".join(ids)
    return f"{', '.join(ids[:_NAMED])} and {len(ids) - _NAMED} more"
