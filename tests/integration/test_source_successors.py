"""A table whose stream is switched off and on: the old one to its end, then the new one."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.positions import SHARD_END
from shardline.local.service import Service
from shardline.spark.driver import stream_plan
from tests.integration.source_run import SourceRun

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True) as running:
        yield running


def put(service: Service, first: int, last: int) -> None:
    for n in range(first, last):
        keys: Any = {"id": {"S": str(n)}}
        service.tables.put_change("users", keys, new=keys)


def switch_off_and_on(service: Service) -> None:
    service.tables.disable_stream("users")
    service.clock.advance(1)  # the ARN of a stream is the time of its making
    service.tables.create_table("users", shards=2)


def run(service: Service, log: list[str] | None = None) -> SourceRun:
    given = {"tableName": "users", "endpointUrl": service.endpoint_url}
    return SourceRun("dynamodb-streams", given | {"startingPosition": "trim_horizon"}, log)


def ids(batches: list[list[list[dict[str, Any]]]]) -> list[str]:
    rows = [row for batch in batches for part in batch for row in part]
    assert {row["stream"] for row in rows} <= {"users"}
    return sorted((row["keys"] for row in rows), key=lambda text: (len(text), text))


def keys(first: int, last: int) -> list[str]:
    return [f'{{"id":{{"S":"{n}"}}}}' for n in range(first, last)]


@pytest.mark.case("X-06")
@pytest.mark.parametrize("restart", [False, True])
def test_the_old_stream_is_drained_and_the_new_one_read_from_its_beginning(
    service: Service,
    restart: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(stream_plan, "_SETTLED", timedelta(days=-1))
    service.tables.create_table("users", shards=2)
    put(service, 0, 6)
    query = run(service)
    assert ids(query.until(6)) == keys(0, 6)
    put(service, 6, 9)  # unread when the stream is switched off
    switch_off_and_on(service)
    put(service, 9, 15)
    if restart:
        query.close()
        query = run(service, query.log)
    assert ids(query.until(9)) == keys(6, 15)
    assert "users was switched off and on" in caplog.text
    put(service, 15, 17)
    query.close()
    with run(service, query.log) as again:  # goes on in the new stream
        assert ids(again.until(2)) == keys(15, 17)
    for number in range(len(query.log) - 1):  # every batch can be read again, of either stream
        with run(service, query.log) as replay:
            replay.rows(number)


@pytest.mark.case("X-06")
def test_a_drained_stream_is_left_only_when_it_is_surely_over(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_plan, "_SETTLED", timedelta(days=1))  # however slow the machine is
    service.tables.create_table("users", shards=1)
    put(service, 0, 3)
    with run(service) as query:
        assert ids(query.until(3)) == keys(0, 3)
        switch_off_and_on(service)
        put(service, 3, 5)
        while any(item.upto != SHARD_END for item in query.offset().ranges.values()):
            query.step()
        drained = query.offset()
    with run(service, query.log) as too_early:
        # The new stream is a moment old, and a listing of the old one may be stale.
        assert too_early.step() is None
        assert too_early.offset() == drained
    monkeypatch.setattr(stream_plan, "_SETTLED", timedelta(days=-1))  # as if time had passed
    with run(service, query.log) as later:
        assert ids(later.until(2)) == keys(3, 5)
