"""Lineage and leases as HTML, read from a stream and a lease table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shardline.core.leasing.rows import LeaseRow
from shardline.leases.address import open_table
from shardline.local import Service
from shardline.observation.notebook import leases, lineage
from shardline.observation.snapshot import GapView, ShardView, Snapshot, WorkerView

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as service:  # not strict: single listings are compared
        service.tables.create_table("users", shards=2)
        service.tables.split("users", open_shard(service))
        yield service


def open_shard(service: Service) -> str:
    now_ms = service.clock.now_ms()
    listed = service.tables.find_stream("users", now_ms).listed(now_ms)
    return next(shard.id for shard in listed if shard.last is None)


def test_a_lineage_is_a_table_of_parents_and_children(service: Service) -> None:
    seen = lineage("dynamodb://users", endpoint_url=service.endpoint_url)
    assert repr(seen) == "<dynamodb://users: 4 shards>"
    html = seen._repr_html_()
    assert html.count("<tr>") == 5  # the heading, two roots, two children
    child = next(view for view in seen.shards if view.parents)
    assert f"<td>{child.id}</td><td>{child.parents[0]}</td><td>open</td>" in html


def test_leases_show_who_holds_what(service: Service, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/leases.db"
    held = open_shard(service)
    table = open_table(address)
    table.prepare()
    row = LeaseRow("billing", "dynamodb/users", held, datetime.now(UTC))
    table.swap_row(replace(row, lease_owner="run-7/0/1/uuid", epoch=3), None)
    table.close()
    seen = leases("dynamodb://users", "billing", address, endpoint_url=service.endpoint_url)
    assert repr(seen) == "<dynamodb://users, leases of billing: 4 shards>"
    assert "<td>run-7/0</td><td>3</td><td>trim_horizon</td>" in seen._repr_html_()


def test_every_text_is_escaped_and_gaps_are_shown() -> None:
    snapshot = Snapshot(
        at=0.0,
        stream="kinesis://orders",
        app="<b>",
        shards=(ShardView("s", (), False, "halted", halted="<script>", lag_seconds=1.25),),
        workers=(WorkerView("<w>", 1, leaving=True),),
        gaps=(GapView("s", "gap in s after 5"),),
    )
    html = snapshot._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "<td>halted: &lt;script&gt;</td>" in html
    assert "<td>1.2 s</td>" in html
    assert "<td>&lt;w&gt;</td><td>1</td><td></td><td>leaving</td>" in html
    assert "<td>gap in s after 5</td>" in html
