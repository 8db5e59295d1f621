"""Takes the documentation's pictures of a dashboard that is running: light and dark.

First `shardline demo --keep`, which prints the address of its page; then
`python docs/pictures/take.py http://127.0.0.1:8765/ page`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


def take(url: str, name: str, *, width: int = 1440, height: int = 900) -> None:
    """Write NAME-light.png and NAME-dark.png beside this file."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page.goto(url)
            page.locator("#shard-rows tr").first.wait_for()
            page.screenshot(path=Path(__file__).with_name(f"{name}-{scheme}.png"))
            page.close()
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: take.py URL NAME")
    take(sys.argv[1], sys.argv[2])
