"""Debian's Chromium, driven by Playwright; without it a test is skipped, or fails where asked."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Dialog, Page

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        _missing("no Chromium is installed; on Debian: `apt-get install chromium`")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        _missing("playwright is not installed; run `make setup`")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield running
        running.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page; at the end of the test nothing may have gone wrong in it."""
    opened: list[Page] = []
    wrong: list[str] = []

    def refuse(dialog: Dialog) -> None:
        wrong.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def open_page(url: str, **how: object) -> Page:
        page = browser.new_page(**{"viewport": {"width": 1440, "height": 1000}, **how})  # type: ignore[arg-type]
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console",
            lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("dialog", refuse)
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(url) else wrong.append(asked.url),
        )
        page.goto(url)
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        page.close()
    assert wrong == []


def _missing(reason: str) -> NoReturn:
    if os.environ.get("SHARDLINE_REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
