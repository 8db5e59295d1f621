"""A row of a lease table whose fields have other types than they should."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from shardline.core.checkpoints import damage_named
from shardline.errors import InvalidPosition
from shardline.leases.stored_rows import checked
from tests.property.document_cases import BEAT, HEADER, PARKED, ROW, RUN

WRONG: tuple[Any, ...] = (object(), b"", 1.5)


@pytest.mark.parametrize(
    "row", [ROW, BEAT, HEADER, RUN, PARKED], ids=lambda row: type(row).__name__
)
def test_a_field_of_another_type_is_named_in_one_line(row: Any) -> None:
    assert checked(row) is row
    for field in fields(row):
        for value in WRONG:
            with pytest.raises(InvalidPosition, match=f"row is damaged.*{field.name} is"):
                _read(replace(row, **{field.name: value}))


@pytest.mark.parametrize(
    "wrong", [{"epoch": True}, {"completed": 1}, {"parents": (1,)}, {"as_of": "naive"}], ids=str
)
def test_what_python_takes_for_the_same_is_not(wrong: dict[str, Any]) -> None:
    if wrong == {"as_of": "naive"}:
        wrong = {"as_of": ROW.stream_created_at.replace(tzinfo=None)}
    with pytest.raises(InvalidPosition, match=next(iter(wrong))):
        _read(replace(ROW, **wrong))


@damage_named("row")
def _read(row: Any) -> None:
    checked(row)
