"""Images become items of the declared type, or an error that says which attribute does not fit."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from shardline.errors import ConfigurationError
from shardline.spark.executor.images import with_typed_images

TYPES = {
    "id": StringType(),
    "count": LongType(),
    "price": DecimalType(38, 2),
    "ratio": DoubleType(),
    "on": BooleanType(),
    "raw": BinaryType(),
    "tags": ArrayType(StringType()),
    "inner": StructType([StructField("x", LongType())]),
    "any": MapType(StringType(), LongType()),
}
ITEM = StructType([StructField(name, kind) for name, kind in TYPES.items()])


def read(image: dict[str, Any] | None, item: StructType = ITEM) -> Any:
    text = None if image is None else json.dumps(image)
    images = pa.RecordBatch.from_pydict(
        {"oldImage": pa.array([None], pa.string()), "newImage": pa.array([text], pa.string())}
    )
    typed = with_typed_images(images, item)
    assert typed.column("oldImage").to_pylist() == [None]
    return typed.column("newImage").to_pylist()[0]


def test_every_kind_of_attribute_finds_its_type() -> None:
    item = read(
        {
            "id": {"S": "a"},
            "count": {"N": "9007199254740993"},
            "price": {"N": "12.34"},
            "ratio": {"N": "0.5"},
            "on": {"BOOL": True},
            "raw": {"B": "AAH/"},
            "tags": {"SS": ["x", "y"]},
            "inner": {"M": {"x": {"N": "1"}, "unknown": {"S": "left out"}}},
            "any": {"M": {"k": {"N": "7"}}},
        }
    )
    assert item == {
        "id": "a", "count": 9007199254740993, "price": Decimal("12.34"), "ratio": 0.5, "on": True,
        "raw": b"\x00\x01\xff", "tags": ["x", "y"], "inner": {"x": 1}, "any": [("k", 7)],
    }  # fmt: skip


def test_what_is_missing_or_null_is_null() -> None:
    assert read(None) is None
    item = read({"id": {"S": "a"}, "count": {"NULL": True}})
    assert item["id"] == "a"
    assert all(value is None for name, value in item.items() if name != "id")


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ({"count": {"S": "many"}}, "item.count is declared bigint, but an image has S"),
        (
            {"count": {"N": "1.5"}},
            "item.count is declared bigint, but an image has N of another form",
        ),
        ({"count": {"N": str(2**63)}}, "item.count is declared bigint"),
        ({"price": {"N": "0.001"}}, r"item.price is declared decimal\(38,2\)"),
        ({"price": {"N": "1E37"}}, r"item.price is declared decimal\(38,2\)"),
        ({"inner": {"M": {"x": {"BOOL": True}}}}, "item.inner.x is declared bigint"),
    ],
)
def test_what_does_not_fit_is_an_error_and_never_a_null(image: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigurationError, match=line):
        read(image)


def test_a_type_that_no_attribute_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no attribute of DynamoDB"):
        read({}, StructType([StructField("day", DateType())]))
