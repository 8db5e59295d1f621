"""A model of a table's items, written as the schema that Spark is told."""

import uuid
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import shardline
from shardline.errors import ConfigurationError
from shardline.spark import item_schema


class Colour(Enum):
    RED = "red"


class Address(BaseModel):
    street: str
    number: int | None = None


class User(shardline.Model):
    id: uuid.UUID = shardline.key()
    age: int
    score: float | None = None
    price: Decimal
    paid: Annotated[Decimal, Field(max_digits=12, decimal_places=2)]
    raw: bytes
    on: bool
    seen_at: datetime = Field(alias="seenAt")
    colour: Colour
    size: Literal["s", "m"]
    tags: set[str]
    pair: tuple[int, ...]
    limits: dict[str, int]
    addresses: list[Address]


def test_every_field_has_the_type_in_which_its_attribute_is_read() -> None:
    assert item_schema(User).split(", `") == [
        "`id` STRING",
        "age` BIGINT",
        "score` DOUBLE",
        "price` DECIMAL(38,18)",
        "paid` DECIMAL(12,2)",
        "raw` BINARY",
        "on` BOOLEAN",
        "seenAt` STRING",
        "colour` STRING",
        "size` STRING",
        "tags` ARRAY<STRING>",
        "pair` ARRAY<BIGINT>",
        "limits` MAP<STRING, BIGINT>",
        "addresses` ARRAY<STRUCT<`street`: STRING",
        "number`: BIGINT>>",
    ]


@pytest.mark.parametrize("annotation", [Any, int | str, list, complex, dict])
def test_what_has_no_one_type_is_named(annotation: Any) -> None:
    class Odd(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        field: annotation

    with pytest.raises(ConfigurationError, match=r"Odd\.field .* write itemSchema by hand"):
        item_schema(Odd)
