"""The page itself: hostile names, keyboard, screen readers, dark mode, many shards."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from shardline.core.promise import Verdict
from shardline.core.shards import Shard
from shardline.dashboard.server import PageServer
from shardline.observation.snapshot import DeadLetter
from tests.unit.observation.situations import START, Situation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from shardline.observation.snapshot import Snapshot

    Visit = Callable[..., Page]

EVIL = "<img src=x onerror=\"document.title='pwned'\"><script>alert(1)</script>"


@pytest.fixture
def serve() -> Iterator[Callable[[Situation], str]]:
    servers: list[PageServer] = []

    def start(situation: Situation) -> str:
        servers.append(PageServer(situation, interval_seconds=0.05))
        return servers[-1].url

    yield start
    for server in servers:
        server.stop()


def test_hostile_contents_are_text_and_nothing_else(
    serve: Callable[[Situation], str], visit: Visit
) -> None:
    situation = Situation(1, stream=f"kinesis://{EVIL}")
    situation.snapshot()
    shard = situation.add(Shard(EVIL))
    situation.take(shard, f"{EVIL}/1")
    situation.lose(shard, EVIL)
    situation.beat(f"{EVIL}/1")
    situation.dead_letters.append(DeadLetter(START, EVIL, EVIL, EVIL, EVIL, EVIL))
    situation.verdict = Verdict(1, 1, 1, 0, 0, 0, 0, {}, (EVIL,))
    page = visit(serve(situation))
    rows = page.locator("#shard-rows tr")
    rows.nth(1).wait_for()
    assert EVIL in rows.filter(has_text="onerror").inner_text()
    rows.filter(has_text="onerror").click()
    page.locator("#details h2").get_by_text(EVIL).wait_for()
    page.locator("#search").fill(EVIL)
    rows.nth(1).wait_for(state="detached")
    assert page.locator("main img, main script, body > img, svg img").count() == 0
    assert EVIL in page.locator("#trouble-list").inner_text()
    assert page.title() == f"kinesis://{EVIL} · shardline"
    assert page.evaluate("document.scripts.length") == 1


def test_a_payload_is_shown_after_the_token_was_given(visit: Visit) -> None:
    situation = Situation(1)
    situation.dead_letters.append(DeadLetter(START, "s", "key", "7", "bad", "SECRET"))
    with PageServer(situation, token="open sesame", interval_seconds=0.05) as server:  # noqa: S106
        page = visit(server.url)
        trouble = page.locator("#trouble-list")
        trouble.get_by_text("bad").wait_for()
        assert "SECRET" not in trouble.inner_text()
        page.get_by_label("Token for payloads").fill("open sesame")
        page.get_by_role("button", name="Show payloads").click()
        trouble.get_by_text("SECRET").wait_for()


def test_a_page_that_gets_no_news_is_stale_and_not_live(visit: Visit) -> None:
    situation, hanging = Situation(1), threading.Event()

    class Watch:
        def snapshot(self) -> Snapshot:
            if hanging.is_set():
                may_end.wait(60)
            return situation.snapshot()

    may_end = threading.Event()
    with PageServer(
        Watch(), interval_seconds=0.05, stale_seconds=0.05, pulse_seconds=0.05
    ) as server:
        page = visit(server.url)
        page.locator("#link[data-state=live]").wait_for()
        hanging.set()
        page.locator("#link[data-state=stale]").wait_for()
        page.locator("#notice").get_by_text("The page shows the last observation").wait_for()
        may_end.set()


def test_the_keyboard_reaches_every_shard_and_its_details(
    serve: Callable[[Situation], str], visit: Visit
) -> None:
    situation = Situation(3)
    page = visit(serve(situation))
    page.locator("#river g.shard").first.wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('g.shard')"):
            break
    assert page.evaluate("document.activeElement.dataset.shard") == "shardId-000000000000"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.shard") == "shardId-000000000001"
    ring = "getComputedStyle(document.activeElement.querySelector('.ring')).stroke"
    assert page.evaluate(ring) != "rgba(0, 0, 0, 0)"
    situation.now += 1
    page.wait_for_function("at => Number(document.body.dataset.at) >= at", arg=situation.now)
    assert page.evaluate("document.activeElement.dataset.shard") == "shardId-000000000001"
    page.keyboard.press("Enter")
    page.locator("#details h2").get_by_text("shardId-000000000001").wait_for()
    page.keyboard.press("Escape")
    page.locator("#details").wait_for(state="hidden")


def test_the_table_has_headers_sorts_searches_and_moves_by_arrow(
    serve: Callable[[Situation], str], visit: Visit
) -> None:
    situation = Situation(12)
    for number, shard_id in enumerate(situation.shard_ids()):
        situation.take(shard_id, f"worker-{number % 2}/x")
        situation.lags[shard_id] = float(number)
    page = visit(serve(situation))
    rows = page.locator("#shard-rows tr")
    rows.nth(11).wait_for()
    assert page.locator("#shards thead th[scope=col]").count() == 8
    assert page.locator("#shard-rows th[scope=row]").count() == 12
    lag = page.get_by_role("button", name="Lag", exact=True)
    lag.click()
    lag.click()
    assert page.locator("th[data-column=Lag]").get_attribute("aria-sort") == "descending"
    assert rows.first.get_attribute("data-shard") == "shardId-000000000011"
    page.keyboard.press("/")
    page.keyboard.type("worker-1")
    rows.nth(6).wait_for(state="detached")
    assert rows.count() == 6
    assert page.locator("#river g.shard.dimmed").count() == 6
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.shard") == "shardId-000000000009"


def test_screen_readers_are_told_of_shards_and_hear_each_event_once(
    serve: Callable[[Situation], str], visit: Visit
) -> None:
    situation = Situation(1)
    situation.take("shardId-000000000000", "worker-a/1")
    situation.lags["shardId-000000000000"] = 3.0
    page = visit(serve(situation))
    page.get_by_role(
        "button", name="Shard shardId-000000000000, reading, owner worker-a, lag 3.0 s"
    ).wait_for()
    events = page.locator("#events")
    assert events.get_attribute("aria-live") == "polite"
    situation.split("shardId-000000000000")
    events.get_by_text("…000 → …001 + …002").wait_for()
    situation.now += 1
    page.wait_for_function("at => Number(document.body.dataset.at) >= at", arg=situation.now)
    assert events.locator("li").count() == 1


def test_dark_follows_the_system_and_the_switch_outranks_it(
    serve: Callable[[Situation], str], visit: Visit
) -> None:
    url = serve(Situation(1))
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(url, color_scheme="light"), visit(url, color_scheme="dark")
    bright = light.evaluate(ground)
    assert dark.evaluate(ground) != bright
    dark.get_by_role("button", name="Switch between light and dark").click()
    assert dark.evaluate(ground) == bright
    dark.reload()
    assert dark.evaluate(ground) == bright


def test_a_verdict_is_shown_where_a_checker_runs(
    serve: Callable[[Situation], str], visit: Visit
) -> None:
    situation = Situation(1)
    page = visit(serve(situation))
    page.locator("#shard-rows tr").first.wait_for()
    assert page.locator("#verdict").is_hidden()
    situation.verdict = Verdict(10, 10, 0, 0, 2, 0, 0, {}, ())
    page.locator("#verdict").get_by_text("Promise kept").wait_for()


@pytest.mark.parametrize(("count", "painter"), [(300, "svg"), (1000, "canvas")])
def test_many_shards_are_drawn_listed_and_found(
    serve: Callable[[Situation], str], visit: Visit, count: int, painter: str
) -> None:
    situation = Situation(count)
    page = visit(serve(situation))
    page.locator(f"#river {painter}").first.wait_for()
    page.locator("#shard-rows tr").nth(count - 1).wait_for(state="attached")
    page.locator("#search").fill(f"{count - 1:012}")
    page.locator("#shard-rows tr").nth(1).wait_for(state="detached")
    page.locator("#shard-rows tr").click()
    page.locator("#details h2").get_by_text(f"shardId-{count - 1:012}").wait_for()


def test_a_stream_without_hash_ranges_is_drawn_by_its_lineage(
    serve: Callable[[Situation], str], visit: Visit
) -> None:
    situation = Situation(1)
    situation._shards.clear()
    situation._rows.clear()
    for shard in (Shard("root"), Shard("a", ("root",)), Shard("b", ("root",)), Shard("c", ("b",))):
        situation.add(shard)
    page = visit(serve(situation))
    page.locator('#river g.shard[data-shard="c"]').wait_for()
    heights = page.locator("#river g.shard .ring").evaluate_all(
        "nodes => nodes.map(n => n.y.baseVal.value)"
    )
    assert heights[1] != heights[2]


OVERLAPS = """async () => {
  const { riverOf } = await import("/layout.js");
  const snapshot = await (await fetch("/snapshot")).json();
  const { bands } = riverOf(snapshot, { width: 1200, chosen: "auto" });
  const found = [];
  for (const a of bands) for (const b of bands) {
    const together = Math.min(a.x1, b.x1) - Math.max(a.x0, b.x0) > 0.01;
    const touching = (a.thick + b.thick) / 2 - Math.abs(a.y - b.y) > 0.01;
    if (a.shard.id < b.shard.id && together && touching) found.push([a.shard.id, b.shard.id]);
  }
  return { bands: bands.length, found };
}"""


@pytest.mark.parametrize("seed", range(3))
def test_shards_that_live_at_one_time_are_never_drawn_over_each_other(
    serve: Callable[[Situation], str], visit: Visit, seed: int
) -> None:
    rng = random.Random(seed)
    situation = Situation(5)
    situation.snapshot()
    for _ in range(60):
        situation.now += 10
        open_shards = [s for s in situation.snapshot().shards if not s.closed]
        open_shards.sort(key=lambda shard: shard.hash_start or 0)
        at = rng.randrange(len(open_shards) - 1)
        if rng.random() < 0.5 and len(open_shards) > 3:
            situation.merge(open_shards[at].id, open_shards[at + 1].id)
        else:
            situation.split(open_shards[at].id)
    situation.now += 10
    situation.snapshot()
    page = visit(serve(situation))
    assert page.evaluate(OVERLAPS) == {"bands": len(situation.shard_ids()), "found": []}
