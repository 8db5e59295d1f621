"""Takes the documentation's pictures of the page in the middle of a demo: light and dark.

First `shardline demo --pause-seconds 8`, which prints the address of its page; then at once
`python docs/pictures/take.py http://127.0.0.1:8765/ page`. It waits for a moment when both
workers read and some shards have been read to their end.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

PATIENCE_SECONDS = 300


def take(url: str, name: str, *, width: int = 1440, height: int = 900) -> None:
    """Write NAME-light.png and NAME-dark.png beside this file."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        size: ViewportSize = {"width": width, "height": height}
        light = browser.new_page(viewport=size, color_scheme="light")
        dark = browser.new_page(viewport=size, color_scheme="dark")
        for page in (light, dark):
            page.goto(url)
            page.locator("#shard-rows tr").first.wait_for()
        wait_for_the_middle(url)
        light.wait_for_timeout(3000)  # until the pages show what was seen
        for scheme, page in (("light", light), ("dark", dark)):
            page.screenshot(path=Path(__file__).with_name(f"{name}-{scheme}.png"))
        browser.close()


def wait_for_the_middle(url: str) -> None:
    """Wait until two workers share the open shards, and five were read to their end."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{url}snapshot", timeout=10) as answer:  # noqa: S310
            snapshot = json.load(answer)
        holding = [worker for worker in snapshot["workers"] if worker["held"]]
        drained = [shard for shard in snapshot["shards"] if shard["state"] == "drained"]
        idle = [shard for shard in snapshot["shards"] if not shard["closed"] and not shard["owner"]]
        if len(holding) > 1 and len(drained) > 4 and not idle:
            return
        time.sleep(0.2)
    sys.exit("the demo showed no such moment")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: take.py URL NAME")
    take(sys.argv[1], sys.argv[2])
