"""From an address to a lease table, and what an address may not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardline.errors import ConfigurationError
from shardline.leases.address import missing_file, open_table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "address",
    ["dynamodb://user:hunter2@table", "user:hunter2@host/db", "mysql://user:hunter2@host/db"],
)
def test_an_address_that_cannot_be_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(ConfigurationError, match="dynamodb://TABLE") as refused:
        open_table(address)
    assert "hunter2" not in str(refused.value)


def test_a_file_that_is_missing_is_known_before_it_is_created(tmp_path: Path) -> None:
    file = tmp_path / "leases.db"
    address = f"sqlite:///{file}"
    assert missing_file(address) == missing_file(f"{address}?timeout=5") == str(file)
    file.touch()
    assert missing_file(address) is missing_file(f"{address}?timeout=5") is None
    assert missing_file("dynamodb://table") is None
