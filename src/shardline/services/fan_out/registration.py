"""The consumers of a stream by its address, for launchers and commands."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from shardline.errors import ConfigurationError
from shardline.services.access import make_client
from shardline.services.addresses import parse_address
from shardline.services.calls import Calls, Patience
from shardline.services.fan_out.consumers import StreamConsumers, check_consumer_name
from shardline.services.kinesis import KinesisStream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.services.access import Access


def ensure_consumer(address: str, access: Access, name: str) -> bool:
    """Register a consumer unless it is there, and wait for it; see `StreamConsumers.ensure`."""
    check_consumer_name(name)
    with consumers_of(address, access) as consumers:
        return consumers.ensure(name)


@contextmanager
def consumers_of(address: str, access: Access) -> Iterator[StreamConsumers]:
    """Connect to the consumers of a stream, for as long as the block lasts."""
    where = parse_address(address)
    if where.service != "kinesis":
        raise ConfigurationError(f"{address}: only Kinesis has enhanced fan-out and its consumers")
    client = make_client("kinesis", access)
    stream = KinesisStream(client, where)
    try:
        yield StreamConsumers(Calls(client, address, Patience()), where, stream.describe)
    finally:
        stream.close()
