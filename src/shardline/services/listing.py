"""Listings that can be relied on, and which of the shards that one lacks are really gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from shardline.errors import ListingExpired, ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from shardline.core.shards import Shard
    from shardline.services.calls import Patience
    from shardline.services.port import StreamService
    from shardline.services.wire.descriptions import ShardPage

_ATTEMPTS: Final = 3
_CALLS_AT_ONCE: Final = 8


def list_whole(
    pages: Callable[[], Iterable[ShardPage]], subject: str, patience: Patience
) -> tuple[Shard, ...]:
    """Return the shards of all pages.

    The listing starts again if the token of a page expired, and if it is empty though the stream
    is in use: an empty one is believed when it comes three times.
    """
    shards: dict[str, Shard] = {}
    for attempt in range(_ATTEMPTS):
        shards.clear()
        in_use = True
        try:
            for page in pages():
                in_use = page.enabled
                _add(shards, page.shards, subject)
        except ListingExpired:
            if attempt + 1 == _ATTEMPTS:
                raise
            continue
        if shards or not in_use:
            break
        if attempt + 1 < _ATTEMPTS:
            patience.sleep(patience.delay_seconds(attempt))
    return tuple(shards.values())


def gone_shards(service: StreamService, shard_ids: Collection[str]) -> frozenset[str]:
    """Return which of these shards the service does not have, by its answer for each of them.

    Missing from a listing is not gone. Each shard costs one call, and several are made at once.
    A shard younger than the retention cannot be gone, whatever is answered: `core.gaps` judges.
    """
    if len(shard_ids) <= 1:
        return frozenset(shard_id for shard_id in shard_ids if not service.has_shard(shard_id))
    with ThreadPoolExecutor(min(_CALLS_AT_ONCE, len(shard_ids))) as threads:
        found = threads.map(service.has_shard, shard_ids)
        return frozenset(
            shard_id for shard_id, has_it in zip(shard_ids, found, strict=True) if not has_it
        )


def _add(shards: dict[str, Shard], page: Iterable[Shard], subject: str) -> None:
    for shard in page:
        if shard.id in shards:
            raise ServiceError(
                f"{subject}: the listing names {shard.id} twice, so its pages cannot be trusted: "
                "list again, or use a server whose paging works"
            )
        shards[shard.id] = shard
