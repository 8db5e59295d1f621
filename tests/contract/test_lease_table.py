"""One suite for the lease port, run against every home that lease rows can have."""

from __future__ import annotations

import socket
import sqlite3
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import pytest

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow, advanced, finished, taken
from shardline.core.leasing.runs import Run
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import ConfigurationError
from shardline.leases.address import open_table
from shardline.leases.port import Conflict, LeaseTable, TableUnavailable
from shardline.services.access import Access
from tests.twins.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import Database, Endpoint

CREATED = datetime(2026, 11, 1, 12, 30, 1, 250_000, tzinfo=UTC)
LATER = CREATED + timedelta(days=1)
HOMES = ["memory", "sqlite", "postgresql", "shardline local", "dynamodb local", "ministack"]


@pytest.fixture(params=HOMES)
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], LeaseTable]:
    """Return what opens the same table, each time through a connection of its own."""
    match request.param:
        case "memory":
            only = MemoryLeaseTable()
            return lambda: only
        case "sqlite":
            return lambda: open_table(f"sqlite:///{tmp_path}/leases.db")
        case "postgresql":
            database: Database = request.getfixturevalue("postgresql")
            return lambda: open_table(database.dsn)
    server: Endpoint = request.getfixturevalue(request.param.replace(" ", "_"))
    name = f"leases-{uuid.uuid4().hex[:8]}"
    return lambda: open_table(f"dynamodb://{name}", Access(endpoint_url=server.endpoint_url))


@pytest.fixture
def table(open_again: Callable[[], LeaseTable]) -> Iterator[LeaseTable]:
    opened = open_again()
    opened.prepare()
    yield opened
    opened.close()


@pytest.fixture
def app() -> str:
    return f"app-{uuid.uuid4().hex[:8]}"  # PostgreSQL is shared by all tests


def lease(app: str, shard_id: str = "shard-0", stream: str = "orders") -> LeaseRow:
    return LeaseRow(app, stream, shard_id, CREATED)


@pytest.mark.req("K-12", "K-28")
def test_a_row_comes_back_as_it_was_written(table: LeaseTable, app: str) -> None:
    row = LeaseRow(
        app_name=app,
        stream_name="orders",
        shard_id="shardId-000000000007",
        stream_created_at=CREATED,
        parents=("shardId-000000000001", "shardId-000000000002"),
        lease_owner="worker/7f",
        lease_count=2**40,
        epoch=2**53 + 1,
        checkpoint=After(SequenceNumber("9" * 56), 3),
        as_of=LATER,
        completed=False,
        given_to="öther/1",
        gap="records of two hours",
        unlisted_since=LATER,
        starts=3,
        halted="it fails",
        lag_ms=1_500,
    )
    table.swap_row(row, None)
    assert table.read_rows(app, "orders", [row.shard_id, "no such"]) == {row.shard_id: row}
    assert table.scan_rows(app, "orders", None, 10).rows == (row,)
    done = finished(row)
    table.swap_row(done, row)
    stored = table.read_rows(app, "orders", [row.shard_id])[row.shard_id]
    assert stored == done
    assert stored.checkpoint == SHARD_END


@pytest.mark.req("K-06")
@pytest.mark.case("W-02")
def test_a_write_is_refused_when_owner_epoch_or_count_moved_on(table: LeaseTable, app: str) -> None:
    row = lease(app)
    table.swap_row(row, None)
    mine = taken(row, "me/1")
    table.swap_row(mine, row)
    with pytest.raises(Conflict) as refused:
        table.swap_row(taken(row, "you/1"), row)
    assert refused.value.current == mine
    for outdated in (
        replace(mine, lease_owner="you/1"),
        replace(mine, lease_owner=None),
        replace(mine, epoch=0),
        replace(mine, lease_count=9),
    ):
        with pytest.raises(Conflict):
            table.swap_row(advanced(outdated, After(SequenceNumber("5"))), outdated)
        with pytest.raises(Conflict):
            table.delete_row(outdated)
    assert table.read_rows(app, "orders", [row.shard_id]) == {row.shard_id: mine}


def test_a_row_is_created_once_and_a_missing_one_is_never_updated(
    table: LeaseTable, app: str
) -> None:
    row = lease(app)
    with pytest.raises(Conflict) as missing:
        table.swap_row(taken(row, "me/1"), row)
    assert missing.value.current is None
    table.swap_row(row, None)
    with pytest.raises(Conflict) as there:
        table.swap_row(taken(row, "me/1"), None)
    assert there.value.current == row
    table.delete_row(row)
    assert table.read_rows(app, "orders", [row.shard_id]) == {}
    with pytest.raises(Conflict):
        table.delete_row(row)


@pytest.mark.req("K-13")
@pytest.mark.case("W-16")
def test_apps_and_streams_never_meet(table: LeaseTable, app: str) -> None:
    rows = [
        lease(app, stream="a"),
        lease(app, stream="b"),
        lease(f"{app}-2", stream="a"),
        lease(f"{app} a", stream="b"),
        lease(app, stream='a", "b'),
    ]
    for row in rows:
        table.swap_row(row, None)
    for row in rows:
        assert table.scan_rows(row.app_name, row.stream_name, None, 10).rows == (row,)
        assert list(table.read_rows(row.app_name, row.stream_name, ["shard-0"]).values()) == [row]


def test_rows_are_scanned_in_the_order_of_their_bytes(table: LeaseTable, app: str) -> None:
    ids = ["B", "a", "b", "É", "é", "shard-10", "shard-9", "Z", "_"]
    for shard_id in ids:
        table.swap_row(lease(app, shard_id), None)
    found: list[str] = []
    after: str | None = None
    while True:
        page = table.scan_rows(app, "orders", after, 2)
        assert len(page.rows) <= 2
        found += [row.shard_id for row in page.rows]
        after = page.next_after
        if after is None:
            break
    assert found == sorted(ids, key=str.encode)


def test_many_rows_are_read_at_once(table: LeaseTable, app: str) -> None:
    ids = [f"shard-{n:04}" for n in range(230)]  # more than DynamoDB gives in one call
    for shard_id in ids:
        table.swap_row(lease(app, shard_id), None)
    assert set(table.read_rows(app, "orders", ids)) == set(ids)


def test_heartbeats_are_written_on_condition_of_their_count(table: LeaseTable, app: str) -> None:
    beat = Heartbeat(
        app, "orders", "me/1", asks=("shard-1", "shard-2"), capacity=7, lag_ms=12,
        records_per_second=1_000, bytes_per_second=2**40, retries=3, dead_letters=4,
    )  # fmt: skip
    table.swap_heartbeat(beat, None)
    assert table.read_heartbeat(app, "orders", "me/1") == beat
    assert table.read_heartbeat(app, "orders", "you/1") is None
    with pytest.raises(Conflict):
        table.swap_heartbeat(beat, None)
    moved = replace(beat, count=1, held=3, leaving=True, asks=(), capacity=None)
    table.swap_heartbeat(moved, beat)
    with pytest.raises(Conflict) as refused:
        table.swap_heartbeat(replace(beat, count=1), beat)
    assert refused.value.current == moved
    with pytest.raises(Conflict):
        table.delete_heartbeat(beat)
    table.swap_heartbeat(Heartbeat(app, "orders", "you/1"), None)
    assert set(table.read_heartbeats(app, "orders")) == {moved, Heartbeat(app, "orders", "you/1")}
    assert table.read_heartbeats(app, "other") == ()
    table.delete_heartbeat(moved)
    assert table.read_heartbeat(app, "orders", "me/1") is None


@pytest.mark.case("L-18")
def test_a_header_is_replaced_only_by_the_next_stream_of_that_name(
    table: LeaseTable, app: str
) -> None:
    assert table.read_header(app, "orders") is None
    first = Header(app, "orders", CREATED, AtTime(CREATED), began_at=LATER)
    table.create_header(first)
    with pytest.raises(Conflict) as refused:
        table.create_header(Header(app, "orders", LATER, TRIM_HORIZON))
    assert refused.value.current == first
    second = Header(app, "orders", LATER, TRIM_HORIZON)
    table.create_header(second, replaces=first)
    assert table.read_header(app, "orders") == second
    with pytest.raises(Conflict):
        table.create_header(second, replaces=first)
    with pytest.raises(Conflict):
        table.bump(first)


def test_a_bump_counts_and_settles_for_good(table: LeaseTable, app: str) -> None:
    header = Header(app, "orders", CREATED, TRIM_HORIZON)
    with pytest.raises(Conflict):
        table.bump(header)
    table.create_header(header)
    assert table.bump(header) == replace(header, moves=2)
    assert table.bump(header, settled=True) == replace(header, moves=3, settled=True)
    assert table.bump(header) == replace(header, moves=4, settled=True)


def test_every_bump_gets_a_number_of_its_own(
    table: LeaseTable, open_again: Callable[[], LeaseTable], app: str
) -> None:
    header = Header(app, "orders", CREATED, TRIM_HORIZON)
    table.create_header(header)

    def bump_often(_: int) -> list[int]:
        mine = open_again()
        try:
            return [mine.bump(header).moves for _ in range(25)]
        finally:
            if mine is not table:
                mine.close()

    with ThreadPoolExecutor(4) as pool:
        numbers = [n for ns in pool.map(bump_often, range(4)) for n in ns]
    assert sorted(numbers) == list(range(2, 102))


def test_a_run_is_renewed_and_its_stop_is_never_cleared(table: LeaseTable, app: str) -> None:
    run = Run(app, "run-1", CREATED, workers=4)
    assert table.read_run(app, "run-1") is None
    with pytest.raises(Conflict):
        table.stop_run(app, "run-1")
    assert table.write_run(run) == run
    assert table.read_run(app, "run-1") == run
    assert table.write_run(replace(run, workers=5)) == replace(run, workers=5, renewed=1)
    stopped = replace(run, workers=5, renewed=1, stopping=True)
    assert table.stop_run(app, "run-1") == stopped
    assert table.write_run(run) == replace(stopped, workers=4, renewed=2)
    other = table.write_run(Run(app, "run-2", LATER))
    table.write_run(Run(f"{app}-2", "run-1", LATER))
    assert set(table.read_runs(app)) == {replace(stopped, workers=4, renewed=2), other}
    table.delete_run(other)
    table.delete_run(other)
    assert table.read_run(app, "run-2") is None


def test_only_the_owner_of_a_lease_parks_and_unparks_keys(table: LeaseTable, app: str) -> None:
    mine = taken(lease(app), "me/1")
    table.swap_row(mine, None)
    parked = ParkedKey(app, "orders", "shard-0", "kéy", "letter-7", mine.epoch)
    table.park_key(parked, "me/1")
    assert table.read_parked_keys(app, "orders", ["shard-0", "shard-1"]) == (parked,)
    assert table.read_parked_keys(app, "orders", ["shard-1"]) == ()
    assert table.read_parked_keys(app, "other", ["shard-0"]) == ()
    for zombie, epoch in (("you/1", mine.epoch), ("me/1", mine.epoch - 1)):
        with pytest.raises(Conflict) as refused:
            table.park_key(replace(parked, key="other", epoch=epoch), zombie)
        assert refused.value.current == mine
        with pytest.raises(Conflict):
            table.unpark_key(replace(parked, epoch=epoch), zombie)
    later = replace(parked, letter_id="letter-9")
    table.park_key(later, "me/1")
    table.unpark_key(parked, "me/1")  # its last letter is another by now: nothing is deleted
    assert table.read_parked_keys(app, "orders", ["shard-0"]) == (later,)
    table.unpark_key(later, "me/1")
    assert table.read_parked_keys(app, "orders", ["shard-0"]) == ()


def test_a_key_is_unparked_in_every_shard_that_inherited_it(table: LeaseTable, app: str) -> None:
    leases = [taken(lease(app, shard_id), "me/1") for shard_id in ("parent", "child", "sibling")]
    for row in leases:
        table.swap_row(row, None)
        table.park_key(ParkedKey(app, "orders", row.shard_id, "k", "letter", row.epoch), "me/1")
    table.unpark_key(ParkedKey(app, "orders", "child", "k", "letter", 1), "me/1")
    assert table.read_parked_keys(app, "orders", ["parent", "child", "sibling"]) == ()


@pytest.mark.req("K-17")
def test_preparing_again_clears_nothing(
    table: LeaseTable, open_again: Callable[[], LeaseTable], app: str
) -> None:
    table.swap_row(lease(app), None)
    again = open_again()
    assert again.prepare() is False
    assert again.read_rows(app, "orders", ["shard-0"])


@pytest.mark.req("K-06", "K-07")
@pytest.mark.case("W-02", "W-03")
def test_of_eight_takers_exactly_one_wins_each_of_100_rounds(
    table: LeaseTable, open_again: Callable[[], LeaseTable], app: str
) -> None:
    takers, rounds = 8, 100
    row = lease(app)
    table.swap_row(row, None)
    start = threading.Barrier(takers)
    wins: list[list[int]] = [[] for _ in range(takers)]

    def take_often(me: int) -> None:
        mine, known = open_again(), row
        try:
            for _ in range(rounds):
                start.wait(60)
                try:
                    mine.swap_row(taken(known, f"worker-{me}/1"), known)
                except Conflict as lost:
                    known = cast("LeaseRow", lost.current)
                else:
                    known = taken(known, f"worker-{me}/1")
                    wins[me].append(known.epoch)
        finally:
            if mine is not table:
                mine.close()

    with ThreadPoolExecutor(takers) as pool:
        list(pool.map(take_often, range(takers)))
    assert sorted(epoch for mine in wins for epoch in mine) == list(range(1, rounds + 1))
    assert table.read_rows(app, "orders", ["shard-0"])["shard-0"].epoch == rounds


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("leases.db", "write sqlite:///FILE"),
        ("mongodb://x", "write sqlite:///FILE"),
        ("dynamodb://", "write sqlite:///FILE"),
    ],
)
def test_a_bad_address_is_refused_with_the_right_forms(address: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        open_table(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://nobody:secret@127.0.0.1:{port}/none",
        "sqlite:////no/such/folder/leases.db",
        "dynamodb://leases",
    ],
)
def test_a_table_that_cannot_be_reached_says_so_in_one_line_without_the_password(
    address: str,
) -> None:
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        port = bound_but_not_listening.getsockname()[1]
        with pytest.raises(TableUnavailable) as unavailable:
            open_table(
                address.format(port=port), Access(endpoint_url=f"http://127.0.0.1:{port}")
            ).prepare()
    assert "\n" not in str(unavailable.value)
    assert "secret" not in str(unavailable.value)


def test_sqlite_is_read_while_somebody_holds_its_lock(tmp_path: Path, app: str) -> None:
    table = open_table(f"sqlite:///{tmp_path}/leases.db")
    table.prepare()
    table.swap_row(lease(app), None)
    frozen = sqlite3.connect(tmp_path / "leases.db", isolation_level=None)
    frozen.execute("BEGIN IMMEDIATE")
    assert table.read_rows(app, "orders", ["shard-0"]) == {"shard-0": lease(app)}
    assert table.scan_rows(app, "orders", None, 10).rows == (lease(app),)
    assert table.read_header(app, "orders") is None
    assert table.read_heartbeats(app, "orders") == ()
    assert table.read_heartbeat(app, "orders", "a/1") is None
    frozen.close()
    table.close()
