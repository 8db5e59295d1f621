"""The addresses of places for dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardline.consumer.dead_letters import open_dead_letters
from shardline.errors import ConfigurationError
from shardline.services.access import Access
from tests.unit.consumer.letters.test_folder import batch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("to", ["", "letters", "file://relative/path", "kinesis://", "s3://bucket"])
def test_what_is_no_place_is_refused_at_once(to: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write kinesis://STREAM, dynamodb://TABLE or"):
        open_dead_letters(to, Access())


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    open_dead_letters(f"file://{tmp_path}/dead%20letters", Access()).write(batch([1]), "odd")
    assert [path.name for path in tmp_path.iterdir()] == ["dead letters"]
