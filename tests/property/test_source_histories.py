"""Random lives of a query; many more by `python -m tests.property.source_histories`."""

from __future__ import annotations

import pytest

from tests.property.source_histories import live


@pytest.mark.req("K-02", "O-02", "O-03", "O-15")
@pytest.mark.case("X-01", "X-02", "X-07", "X-11", "X-15", "R-10", "R-13")
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_lives_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 10):
        assert live(seed).failure is None, f"seed {seed}"


@pytest.mark.parametrize(
    "seed", [1203, 2010, 434878578288, 208936399330, 208936405497, 727176559732]
)
def test_lives_that_once_broke_a_promise_keep_it(seed: int) -> None:
    assert live(seed).failure is None
