"""The fast and the simple decoders accept the same bodies, and read in them what others read."""

from __future__ import annotations

import pytest

from tests.property.decoder_cases import check, use_fast_ways_for_all_sizes

SEEDS = 4_000


def test_all_decoders_agree_on_whole_and_damaged_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fast_ways_for_all_sizes(monkeypatch.setattr)
    for seed in range(SEEDS):
        try:
            check(seed)
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")
