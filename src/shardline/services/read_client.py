"""A botocore client whose GetRecords calls cost little: a reader makes five a second and shard."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from shardline.services.repeated_requests import RepeatedRequests
from shardline.services.wire import cbor

if TYPE_CHECKING:
    from collections.abc import Callable


class ReadClient:
    """A client for `Calls`. All calls but GetRecords are botocore's own."""

    def __init__(self, client: Any, decode: Callable[[bytes], Any], wire: str = "json") -> None:
        self._client = client
        self._requests = RepeatedRequests(client, "GetRecords", decode)
        self._encode = cbor.encode if wire == "cbor" else msgspec.json.encode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_records(self, **parameters: Any) -> dict[str, Any]:
        """Read a page."""
        first = partial(self._client.get_records, **parameters)
        return self._requests.send(self._encode(parameters), first)
