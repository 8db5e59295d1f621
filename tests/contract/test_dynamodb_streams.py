"""What every server of DynamoDB Streams must show through the port."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import InvalidPosition, ShardNotFound, StreamNotFound
from shardline.services.cursor import ShardCursor
from shardline.services.wire.columns import DYNAMODB_COLUMNS
from tests.contract.dynamodb_servers import (
    OURS,
    SERVERS,
    OnlyItsStream,
    OverTheWire,
    TableUnderTest,
    connect,
)
from tests.contract.reading import rows_from, rows_of, rows_to_end, wait_until

anywhere = pytest.mark.parametrize("server", SERVERS)
where_shards_split = pytest.mark.parametrize("server", OURS)


def only_shard(table: TableUnderTest) -> str:
    [shard] = table.service.list_shards()
    return shard.id


def write_numbered(table: TableUnderTest, count: int) -> list[dict[str, Any]]:
    """Write one item several times over, and return the rows that this made."""
    for number in range(count):
        table.write("k", f"{number}")
    return rows_from(table.service, only_shard(table), TRIM_HORIZON, count)


def value_in(image: str | None) -> str | None:
    return None if image is None else json.loads(image)["value"]["S"]


def values_of(rows: list[dict[str, Any]]) -> list[str | None]:
    return [value_in(row["newImage"]) for row in rows]


# --- records -------------------------------------------------------------------------------


@anywhere
def test_changes_come_in_the_order_they_were_made(table: TableUnderTest) -> None:
    for number in range(20):
        table.write(f"key-{number % 3}", f"{number}")
    rows = rows_from(table.service, only_shard(table), TRIM_HORIZON, 20, page=6)
    assert values_of(rows) == [f"{number}" for number in range(20)]
    numbers = [SequenceNumber(row["sequenceNumber"]) for row in rows]
    assert numbers == sorted(set(numbers))
    assert len({row["eventID"] for row in rows}) == 20


@anywhere
@pytest.mark.req("C-08")
def test_an_insert_has_no_old_image_an_update_both_and_a_delete_no_new_one(
    table: TableUnderTest,
) -> None:
    table.write("küche 🦀", 'first "quoted" \\ line\n')
    table.write("küche 🦀", "second")
    table.remove("küche 🦀")
    rows = rows_from(table.service, only_shard(table), TRIM_HORIZON, 3)
    assert [row["eventName"] for row in rows] == ["INSERT", "MODIFY", "REMOVE"]
    assert [(value_in(row["oldImage"]), value_in(row["newImage"])) for row in rows] == [
        (None, 'first "quoted" \\ line\n'),
        ('first "quoted" \\ line\n', "second"),
        ("second", None),
    ]
    assert all(json.loads(row["keys"]) == {"id": {"S": "küche 🦀"}} for row in rows)
    assert all(row["userIdentity"] is None for row in rows)


@anywhere
def test_pages_have_the_columns_and_never_more_rows_than_asked(table: TableUnderTest) -> None:
    write_numbered(table, 5)
    cursor = ShardCursor(table.service, only_shard(table), TRIM_HORIZON)
    page = cursor.read(3)
    while not page.records.num_rows:  # a strict service gives empty pages before records
        page = cursor.read(3)
    assert page.records.schema == DYNAMODB_COLUMNS
    assert page.records.num_rows == 3
    assert page.behind_ms is None
    [*created] = page.records.column("approximateCreationDateTime").to_pylist()
    # DynamoDB Local stamps whole minutes.
    assert all(abs(page.service_time - time) < timedelta(minutes=2) for time in created)


# --- positions -----------------------------------------------------------------------------


@anywhere
def test_after_and_at_a_number(table: TableUnderTest) -> None:
    rows = write_numbered(table, 4)
    second = SequenceNumber(rows[1]["sequenceNumber"])
    shard_id = only_shard(table)
    assert rows_from(table.service, shard_id, After(second), 2) == rows[2:]
    assert rows_from(table.service, shard_id, After(second, 0), 3) == rows[1:]


@anywhere
def test_latest_is_behind_everything_at_the_first_read(table: TableUnderTest) -> None:
    write_numbered(table, 2)
    cursor = ShardCursor(table.service, only_shard(table), LATEST)
    assert cursor.read(10).records.num_rows == 0
    table.write("k", "new")
    assert values_of(rows_of(cursor, 1)) == ["new"]


@anywhere
@pytest.mark.req("O-22")
def test_latest_that_has_read_nothing_is_pinned(table: TableUnderTest) -> None:
    cursor = ShardCursor(table.service, only_shard(table), LATEST)
    cursor.read(10)
    table.write("k", "new")
    other = ShardCursor(table.service, cursor.shard_id, cursor.position)
    assert values_of(rows_of(cursor, 1))[-1] == "new"
    assert values_of(rows_of(other, 1))[-1] == "new"


@anywhere
@pytest.mark.req("C-13")
def test_a_time_is_looked_for_by_the_cursor(table: TableUnderTest) -> None:
    rows = write_numbered(table, 4)
    first = rows[0]["approximateCreationDateTime"]
    shard_id = only_shard(table)
    with pytest.raises(InvalidPosition):
        table.service.open(shard_id, AtTime(first))
    assert rows_from(table.service, shard_id, AtTime(first), 4) == rows
    later = ShardCursor(table.service, shard_id, AtTime(first + timedelta(hours=1)))
    assert later.read(10).records.num_rows == 0
    assert later.position == AtTime(first + timedelta(hours=1))


@anywhere
@pytest.mark.case("R-04")
def test_a_cursor_that_opens_again_at_every_page_loses_and_repeats_nothing(
    table: TableUnderTest,
) -> None:
    rows = write_numbered(table, 6)
    cursor = ShardCursor(table.service, only_shard(table), TRIM_HORIZON)
    found = []
    for _ in range(6):
        found += rows_of(cursor, 1, page=1)
        cursor = ShardCursor(table.service, cursor.shard_id, cursor.position)
    assert found == rows


# --- the stream as a whole -----------------------------------------------------------------


@anywhere
def test_a_stream_describes_itself(table: TableUnderTest) -> None:
    described = table.service.describe()
    assert described.active
    assert described.retention_seconds == 24 * 3600
    assert described.created_at.tzinfo is not None
    assert f"table/{described.name}/stream/" in described.arn
    shards = table.service.list_shards()
    assert [shard.closed for shard in shards] == [False]
    assert shards[0].parents == ()


@anywhere
@pytest.mark.req("K-21")
def test_a_shard_of_a_table_can_be_asked_for(table: TableUnderTest) -> None:
    shard_id = only_shard(table)
    assert table.service.has_shard(shard_id)
    assert not table.service.has_shard(shard_id[:-4] + "f00d")


@anywhere
def test_what_is_not_there_or_cannot_be_is_said(table: TableUnderTest) -> None:
    shard_id = only_shard(table)
    with pytest.raises(ShardNotFound):
        table.service.open(shard_id[:-4] + "f00d", TRIM_HORIZON)
    with pytest.raises(InvalidPosition):
        table.service.open(shard_id, SHARD_END)


@pytest.mark.parametrize("server", [server for server in SERVERS if server != "twin"])
def test_a_stream_is_found_by_its_table_or_its_arn(table: OverTheWire) -> None:
    described = table.service.describe()
    by_arn = connect(table.access, f"dynamodb://{described.arn}")
    assert replace(by_arn.describe(), service_time=described.service_time) == described
    with pytest.raises(StreamNotFound, match="no-such-table"):
        connect(table.access, "dynamodb://no-such-table").describe()


# --- where shards split --------------------------------------------------------------------


@where_shards_split
@pytest.mark.req("C-24")
def test_a_split_shard_ends_and_has_two_children(table: OnlyItsStream) -> None:
    parent = only_shard(table)
    rows = write_numbered(table, 3)
    children = table.split(parent)
    table.write("k", "after")
    shards: dict[str, Shard] = {}

    def is_split() -> bool:  # a listing may be stale, and the next one too
        shards.update((shard.id, shard) for shard in table.service.list_shards())
        return shards[parent].closed

    wait_until(is_split, f"{parent} is listed as closed")
    assert [shards[child].parents for child in children] == [(parent,), (parent,)]
    assert rows_to_end(table.service, parent, TRIM_HORIZON, page=2) == rows
    cursors = [ShardCursor(table.service, child, TRIM_HORIZON) for child in children]
    found: list[dict[str, Any]] = []

    def has_arrived() -> bool:  # a page may be empty though there are records after it
        for cursor in cursors:
            found.extend(cursor.read(10).records.to_pylist())
        return bool(found)

    wait_until(has_arrived, "the record of one of the children")
    assert values_of(found) == ["after"]


@where_shards_split
@pytest.mark.case("L-07")
def test_an_empty_closed_shard_ends(table: OnlyItsStream) -> None:
    parent = only_shard(table)
    table.split(parent)
    assert rows_to_end(table.service, parent, TRIM_HORIZON) == []
    assert rows_to_end(table.service, parent, LATEST) == []


@where_shards_split
def test_after_its_last_record_a_closed_shard_ends(table: OnlyItsStream) -> None:
    parent = only_shard(table)
    [row] = write_numbered(table, 1)
    table.split(parent)
    last = After(SequenceNumber(row["sequenceNumber"]))
    assert rows_to_end(table.service, parent, last) == []


@where_shards_split
@pytest.mark.case("L-15")
def test_a_listing_has_every_page(table: OnlyItsStream) -> None:
    newest = only_shard(table)
    for _ in range(4):
        newest = table.roll(newest)
    service = table.service
    if table.access is not None:
        service = connect(table.access, f"dynamodb://{table.name}", shards_per_page=2)
    expected = [True] * 4 + [False]
    wait_until(  # a listing may be stale, and the next one too
        lambda: [shard.closed for shard in service.list_shards()] == expected, "five shards"
    )
