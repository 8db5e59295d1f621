"""The page of a live stream: the embedded service is split, leases change hands, lag moves."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.leasing.rows import LeaseRow, advanced, taken
from shardline.core.positions import After
from shardline.core.shards import SequenceNumber
from shardline.dashboard.server import PageServer
from shardline.local import Service
from shardline.observation.watch import LiveWatch
from shardline.services.access import Access
from shardline.services.connection import connect
from tests.twins.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

    Visit = Callable[..., Page]

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"
TOKEN = "open sesame"  # noqa: S105
STREAM_AGE_SECONDS = 300
"""The lag of a shard is at most its age."""


class Live:
    """A stream, an application's leases, and the page over both."""

    def __init__(self, service: Service) -> None:
        self.kinesis = service.client()
        self.table = MemoryLeaseTable()
        self.stream = connect("kinesis://orders", Access(endpoint_url=service.endpoint_url))
        self.created = self.stream.describe().created_at
        for shard_id in (FIRST, SECOND):
            self.table.swap_row(LeaseRow("billing", "orders", shard_id, self.created), None)
        self.watch = LiveWatch(
            "kinesis://orders",
            self.stream,
            self.table,
            "billing",
            clock=lambda: time.time() + STREAM_AGE_SECONDS,
        )
        self.page = PageServer(
            self.watch,
            token=TOKEN,
            actions={"release": self.watch.release},
            interval_seconds=0.05,
        )

    def row(self, shard_id: str) -> LeaseRow:
        return self.table.read_rows("billing", "orders", [shard_id])[shard_id]

    def take(self, shard_id: str, owner: str) -> None:
        self.table.swap_row(taken(self.row(shard_id), owner), self.row(shard_id))

    def progress(self, shard_id: str, number: int, ago_seconds: float) -> None:
        as_of = datetime.now(UTC) + timedelta(seconds=STREAM_AGE_SECONDS - ago_seconds)
        position = After(SequenceNumber(str(number)))
        self.table.swap_row(advanced(self.row(shard_id), position, as_of), self.row(shard_id))


@pytest.fixture
def live() -> Iterator[Live]:
    # Not strict: the page is held against each split at once, and a stale listing lacks it.
    with Service() as service:
        service.create_stream("orders", 2)
        made = Live(service)
        yield made
        made.page.stop()
        made.stream.close()


def band(page: Page, shard_id: str) -> Locator:
    return page.locator(f'#river g.shard[data-shard="{shard_id}"]')


def row(page: Page, shard_id: str) -> Locator:
    return page.locator(f'#shard-rows tr[data-shard="{shard_id}"]')


def fill_of(page: Page, shard_id: str) -> str:
    """Return the colour of a shard's newest stretch, in one step: the next look draws it anew."""
    colour = page.evaluate(
        "shard => getComputedStyle("
        "[...document.querySelectorAll(`g.shard[data-shard='${shard}'] .flow`)].at(-1)).fill",
        shard_id,
    )
    assert isinstance(colour, str)
    return colour


def test_a_split_appears_in_the_river_the_table_and_the_events(live: Live, visit: Visit) -> None:
    page = visit(live.page.url)
    band(page, SECOND).wait_for()
    assert page.locator("#river g.shard").count() == 2
    live.kinesis.split_shard(
        StreamName="orders", ShardToSplit=FIRST, NewStartingHashKey=str(2**126)
    )
    band(page, "shardId-000000000003").wait_for()
    assert page.locator("#river .ribbon").count() == 2
    page.get_by_text("…000 → …002 + …003").wait_for()
    assert "waiting for …000" in row(page, "shardId-000000000002").inner_text()
    assert "alive" not in (band(page, FIRST).get_attribute("class") or "")


def test_a_new_owner_changes_colour_and_label(live: Live, visit: Visit) -> None:
    live.take(FIRST, "worker-a/1")
    page = visit(live.page.url)
    page.locator(f'g.shard[data-shard="{FIRST}"][data-owner="worker-a"]').wait_for()
    before = fill_of(page, FIRST)
    live.take(FIRST, "worker-b/2")
    page.locator(f'g.shard[data-shard="{FIRST}"][data-owner="worker-b"]').wait_for()
    assert fill_of(page, FIRST) != before
    assert "worker-b" in (band(page, FIRST).text_content() or "")
    assert "worker-b" in row(page, FIRST).inner_text()
    page.get_by_text("…000: worker-a → worker-b").wait_for()


def test_lag_moves_and_the_unread_part_with_it(live: Live, visit: Visit) -> None:
    live.take(FIRST, "worker-a/1")
    live.progress(FIRST, 1, ago_seconds=400)
    page = visit(live.page.url)
    band(page, FIRST).locator(".flow.unread").first.wait_for()
    read = band(page, FIRST).locator(".flow:not(.unread)")
    assert read.count() == 0
    assert row(page, FIRST).inner_text().count("5 min") == 2  # the lag is as high as the age
    live.progress(FIRST, 2, ago_seconds=0)
    read.first.wait_for(state="attached")
    assert row(page, FIRST).inner_text().count("5 min") == 1


def test_a_lease_is_released_with_the_token_and_only_with_it(live: Live, visit: Visit) -> None:
    live.take(FIRST, "worker-a/1")
    page = visit(live.page.url)
    row(page, FIRST).click()
    page.get_by_label("Token", exact=True).fill(TOKEN)
    page.get_by_role("button", name="Release this lease").click()
    page.get_by_text("worker-a released …000").wait_for()
    assert live.row(FIRST).lease_owner is None


def test_a_service_that_is_gone_is_said_and_the_last_snapshot_stays(
    live: Live, visit: Visit
) -> None:
    page = visit(live.page.url)
    band(page, FIRST).wait_for()
    live.kinesis.delete_stream(StreamName="orders")
    page.locator("#notice").get_by_text("The page shows the last observation").wait_for()
    assert page.locator("#river g.shard").count() == 2
    assert page.locator("#link").get_attribute("data-state") == "stale"
