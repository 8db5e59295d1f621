"""The servers that speak Kinesis, each as a fresh stream to write to, to reshard and to read."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from botocore.config import Config

from shardline.core.shards import SequenceNumber
from shardline.services.access import Access, make_client
from shardline.services.addresses import parse_address
from shardline.services.calls import Patience
from shardline.services.kinesis import KinesisStream
from tests.contract.reading import wait_until
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from shardline.local import Service
    from shardline.services.port import StreamService

SERVERS: Final = (
    "twin",
    "shardline",
    "shardline_cbor",
    "kinesalite",
    "kinesis_mock",
    "ministack",
    *(["aws"] if os.environ.get("SHARDLINE_TEST_AWS") == "1" else []),
)

PATIENCE: Final = Patience(total_seconds=10)
"""Some servers answer bad requests with a 500: no test should wait two minutes for that."""


PATIENT: Final = Config(retries={"mode": "standard", "total_max_attempts": 10})


class KinesisUnderTest(Protocol):
    """One new stream, and what a producer and an operator do to it."""

    service: StreamService

    def put(self, key: str, data: bytes, hash_key: int | None = None) -> SequenceNumber:
        """Write one record."""

    def split(self, shard_id: str) -> None:
        """Split a shard in the middle, and wait until that is done."""

    def merge(self, shard_id: str, adjacent_id: str) -> None:
        """Merge two shards, and wait until that is done."""

    def listed_in_pages_of(self, shards: int) -> StreamService:
        """Return the stream, listed so many shards at a time."""

    def of_another_name(self) -> StreamService:
        """Return a stream that does not exist."""


@dataclass
class OverTheWire:
    """A stream of a server."""

    client: Any
    access: Access
    name: str
    wire: str = "json"

    def __post_init__(self) -> None:
        self.service: StreamService = self._connect(self.name)

    def put(self, key: str, data: bytes, hash_key: int | None = None) -> SequenceNumber:
        explicit = {} if hash_key is None else {"ExplicitHashKey": str(hash_key)}
        answer = self.client.put_record(
            StreamName=self.name, PartitionKey=key, Data=data, **explicit
        )
        return SequenceNumber(answer["SequenceNumber"])

    def split(self, shard_id: str) -> None:
        keys = next(
            shard.hash_range for shard in self.service.list_shards() if shard.id == shard_id
        )
        assert keys is not None
        self.client.split_shard(
            StreamName=self.name,
            ShardToSplit=shard_id,
            NewStartingHashKey=str((keys.start + keys.end + 1) // 2),
        )
        self._wait_until_resharded(shard_id)

    def merge(self, shard_id: str, adjacent_id: str) -> None:
        self.client.merge_shards(
            StreamName=self.name, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent_id
        )
        self._wait_until_resharded(shard_id)

    def listed_in_pages_of(self, shards: int) -> StreamService:
        return self._connect(self.name, shards_per_page=shards)

    def of_another_name(self) -> StreamService:
        return self._connect(f"{self.name}-missing")

    def _connect(self, name: str, **options: Any) -> KinesisStream:
        client = make_client("kinesis", self.access)
        address = parse_address(f"kinesis://{name}")
        return KinesisStream(client, address, PATIENCE, wire=self.wire, **options)

    def _wait_until_resharded(self, parent: str) -> None:
        def done() -> bool:
            return self._status() == "ACTIVE" and any(
                parent in shard.parents for shard in self.service.list_shards()
            )

        wait_until(done, f"children of {parent}")

    def _status(self) -> str:
        answer = self.client.describe_stream_summary(StreamName=self.name)
        return str(answer["StreamDescriptionSummary"]["StreamStatus"])


@dataclass
class InMemory:
    """The twin; its clock moves on a millisecond with every record."""

    twin: KinesisTwin

    def __post_init__(self) -> None:
        self.service: StreamService = self.twin

    def put(self, key: str, data: bytes, hash_key: int | None = None) -> SequenceNumber:
        self.twin.clock.advance(0.001)
        return self.twin.put(key, data, hash_key=hash_key).sequence

    def split(self, shard_id: str) -> None:
        self.twin.split(shard_id)

    def merge(self, shard_id: str, adjacent_id: str) -> None:
        self.twin.merge(shard_id, adjacent_id)

    def listed_in_pages_of(self, shards: int) -> StreamService:  # noqa: ARG002 - it has no pages
        return self.service

    def of_another_name(self) -> StreamService:
        lost = KinesisTwin(name="lost", clock=self.twin.clock, account=self.twin.account)
        account, now_ms = lost.account, lost.clock.now_ms()
        account.delete(account.find("lost", now_ms), now_ms)
        lost.clock.advance(1)
        return lost


@contextmanager
def new_stream(
    server: str, shards: int, request: pytest.FixtureRequest
) -> Iterator[KinesisUnderTest]:
    """Make a stream on a server, and delete it afterwards."""
    if server == "twin":
        yield InMemory(KinesisTwin(shards))
        return
    if server == "aws":
        access = Access()
        client = make_client("kinesis", access)
    elif server in ("shardline", "shardline_cbor"):
        running: Service = request.getfixturevalue("shardline_local")
        access = Access(endpoint_url=running.endpoint_url)
        # It is strict: producer and operator have to be patient.
        client = running.client("kinesis", PATIENT)
    else:
        access = Access(endpoint_url=request.getfixturevalue(server).endpoint_url)
        client = make_client("kinesis", access)
    name = f"contract-{uuid.uuid4().hex[:12]}"
    client.create_stream(StreamName=name, ShardCount=shards)
    wire = "cbor" if server == "shardline_cbor" else "json"
    stream = OverTheWire(client, access, name, wire)
    try:
        wait_until(lambda: stream.service.describe().active, f"{name} is active")
        yield stream
    finally:
        client.delete_stream(StreamName=name)
        stream.service.close()
        client.close()
