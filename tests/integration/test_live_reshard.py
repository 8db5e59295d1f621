"""Writers write and shards split and merge while a consumer reads; the checker judges."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import boto3
import pytest

from shardline.core.lineage import State
from shardline.core.promise import PromiseChecker
from shardline.local import Service
from shardline.local.traffic import Traffic, reshard_once
from shardline.local.whole_answers import repeat_cut_answers
from shardline.services.access import Access
from shardline.services.connection import connect
from tests.contract.reading import wait_until
from tests.integration.lineage_reader import LineageReader
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = [f"key-{n}" for n in range(50)]
ROUNDS = 10


@pytest.fixture(params=["shardline local", "kinesalite"])
def endpoint_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kinesalite":
        yield request.getfixturevalue("kinesalite").endpoint_url
        return
    with Service(strict=True) as service:
        yield service.endpoint_url


@pytest.mark.req("O-01", "O-02", "O-03", "O-05", "O-09", "O-10", "O-13", "O-14", "O-15", "K-04")
@pytest.mark.case("L-01", "L-05", "L-19")
def test_order_through_ten_rounds_of_reshards(endpoint_url: str) -> None:
    client = boto3.client("kinesis", endpoint_url=endpoint_url, region_name="us-east-1")
    repeat_cut_answers(client)
    stream_name = f"live-{random.randrange(10**9)}"
    client.create_stream(StreamName=stream_name, ShardCount=2)
    wait_until_active(client, stream_name)
    service = connect(f"kinesis://{stream_name}", Access(endpoint_url=endpoint_url))

    online, writing_ended = LineageReader(service, 1_000), threading.Event()
    reading = threading.Thread(target=_read_until, args=(online, writing_ended), daemon=True)
    # With a pause: what the writers write in full haste is only read for longer.
    traffic = Traffic(client, stream_name, KEYS, writers=4, pause_seconds=0.002).start()
    reading.start()
    rng = random.Random(stream_name)
    for _ in range(ROUNDS):
        written_before = traffic.count
        reshard_once(client, stream_name, rng)
        while traffic.count < written_before + len(KEYS):
            assert not writing_ended.wait(0.01)
    traffic.stop()
    writing_ended.set()
    reading.join()

    offline = LineageReader(connect(f"kinesis://{stream_name}", Access(endpoint_url=endpoint_url)))
    while offline.read_once():
        pass
    for reader in (online, offline):
        checker = PromiseChecker()
        traffic.report_to(checker)
        reader.tell(checker)
        verdict = checker.verdict().require()
        assert verdict.written == traffic.count
        assert verdict.repeated == 0
        drained = set(reader.lineage().ids(State.DRAINED))
        wait_until(  # a listing may be stale, and the next one too
            lambda: {s.id for s in service.list_shards() if s.closed} == drained,  # noqa: B023
            "every closed shard is drained",
        )
        assert len(drained) >= ROUNDS


def _read_until(reader: LineageReader, ended: threading.Event) -> None:
    while True:
        nothing_more_will_come = ended.is_set()
        if not reader.read_once() and nothing_more_will_come:
            return
