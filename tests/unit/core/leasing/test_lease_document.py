"""Leases as a document: everything that the next owner needs, and no owner."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shardline.core.leasing.lease_document import for_app, from_document, to_document
from shardline.core.leasing.rows import Header, LeaseRow
from shardline.core.positions import SHARD_END, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition

CREATED = datetime(2026, 11, 1, tzinfo=UTC)
HEADER = Header(
    "billing",
    "orders",
    CREATED,
    AtTime(CREATED),
    settled=True,
    moves=7,
    latest=True,
    began_at=CREATED,
)
ROWS = (
    LeaseRow(
        "billing", "orders", "s-0", CREATED, epoch=3, lease_count=9, checkpoint=SHARD_END,
        completed=True, gap="lost", unlisted_since=CREATED,
    ),
    LeaseRow(
        "billing", "orders", "s-1", CREATED, parents=("s-0",), lease_owner="worker/1",
        lease_count=4, epoch=5, checkpoint=After(SequenceNumber("4951"), 2), as_of=CREATED,
        halted="stuck",
    ),
)  # fmt: skip


def test_leases_come_back_from_their_document_without_owners() -> None:
    header, rows = from_document(to_document(HEADER, reversed(ROWS)))
    assert header == HEADER
    assert rows == (ROWS[0], replace(ROWS[1], lease_owner=None))


def test_leases_can_get_another_app() -> None:
    header, rows = for_app(HEADER, ROWS, "audit")
    assert {header.app_name, *(row.app_name for row in rows)} == {"audit"}


@pytest.mark.parametrize("text", ["{}", "[", '{"shardline": "leases", "version": 1}'])
def test_a_damaged_document_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidPosition):
        from_document(text)
