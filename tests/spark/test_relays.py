"""Workers in Spark whose connections meet a fate; all cells: `make relays`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.relay_cells import WorkerPair, worker_pair

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[WorkerPair]:
    folder = tmp_path_factory.mktemp("relays")
    with worker_pair(folder, "postgresql", request.getfixturevalue, engine="spark") as made:
        yield made


@pytest.mark.timeout(300)
@pytest.mark.req("P-02", "K-11")
@pytest.mark.parametrize(("link", "fate"), [("stream", "one-way"), ("table", "silent")])
def test_workers_in_spark_keep_the_promises_recover_and_stop(
    pair: WorkerPair, link: str, fate: str
) -> None:
    assert pair.strike(link, fate).verdict.kept
