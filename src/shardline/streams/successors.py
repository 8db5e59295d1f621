"""The streams of one table: each time that streaming is switched on, the table gets a new one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardline.errors import StreamNotFound
from shardline.services.addresses import parse_address
from shardline.services.connection import connect

if TYPE_CHECKING:
    from shardline.services.access import Access
    from shardline.services.port import StreamService


class StreamSuccession:
    """Finds the stream that a position means, and the one that replaced a stream."""

    def __init__(self, address: str, access: Access, fan_out: str | None = None) -> None:
        where = parse_address(address)
        self._address = address
        self._access = access
        self._fan_out = fan_out
        self._may_change = where.service == "dynamodb" and where.stream_arn is None

    def service_at(self, position: Any) -> StreamService:
        """Return the newest stream; for a token of an older stream of the table, that one."""
        service = connect(self._address, self._access, fan_out=self._fan_out)
        arn = position.get("stream") if isinstance(position, dict) else None
        if not self._may_change or not isinstance(arn, str):
            return service
        newest = service.describe().arn
        if arn == newest or _table_of(arn) != _table_of(newest):
            return service  # a token of another table is refused there
        service.close()
        return connect(f"dynamodb://{arn}", replace(self._access, region=None))

    def successor_of(self, arn: str) -> StreamService | None:
        """Return the stream that replaced this one, or None if there is none that is active."""
        if not self._may_change:
            return None
        service = connect(self._address, self._access)
        with suppress(StreamNotFound):
            newest = service.describe()
            if newest.arn != arn and newest.active:
                return service
        service.close()
        return None


def _table_of(arn: str) -> str:
    return arn.partition("/stream/")[0]
