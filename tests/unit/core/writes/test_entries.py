"""Records that no stream takes are refused by name, before anything is sent."""

from __future__ import annotations

import pytest

from shardline.core.writes.entries import LARGEST_RECORD_BYTES, make_entry
from shardline.errors import ConfigurationError


def test_the_size_counts_the_key_in_bytes() -> None:
    assert make_entry("жж", b"123").size_bytes == 7
    assert make_entry("ab", b"123", "17").size_bytes == 5


@pytest.mark.req("S-04")
@pytest.mark.parametrize(
    ("key", "size", "hash_key", "message"),
    [
        ("", 1, None, "1 to 256 characters"),
        ("k" * 257, 1, None, "has 257"),
        ("k", LARGEST_RECORD_BYTES, None, "at most 10,485,760"),
        ("k", 1, "x", "whole number below"),
        ("k", 1, "-1", "whole number below"),
        ("k", 1, "007", "whole number below"),
        ("k", 1, str(2**128), "whole number below"),
    ],
)
def test_what_no_stream_takes(key: str, size: int, hash_key: str | None, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_entry(key, bytes(size), hash_key)


@pytest.mark.req("S-04")
def test_what_a_stream_takes_at_most() -> None:
    make_entry("k" * 256, bytes(LARGEST_RECORD_BYTES - 256), str(2**128 - 1))
