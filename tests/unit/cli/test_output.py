"""Durations and escaped text."""

from __future__ import annotations

import pytest

from shardline.cli.output import duration, printable


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0, "0s"), (0.26, "0.3s"), (59, "59s"), (600, "10m"), (86_400, "24h"),
     (864_000, "10d"), (-5, "0s")],
)  # fmt: skip
def test_durations_read_as_people_say_them(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_printable_keeps_letters_of_any_language_and_escapes_the_rest() -> None:
    assert printable("çafé 東京 ✓") == "çafé 東京 ✓"
    assert printable("a\nb\x9b\u202e") == "a\\nb\\x9b\\u202e"
