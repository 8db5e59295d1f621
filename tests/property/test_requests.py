"""Requests that no client would send are answered or refused by the embedded service."""

from __future__ import annotations

import pytest

from tests.property.request_cases import check

SEEDS = 2_000


def test_any_request_is_answered_or_refused() -> None:
    for seed in range(SEEDS):
        try:
            check(seed)
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")
