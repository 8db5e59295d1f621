"""DynamoDB's images as typed structs, by the schema that the user declares.

An attribute that is missing is null. One that is there and does not fit is an error: a null
in its place would be a value lost in silence.
"""

from __future__ import annotations

import base64
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGES: Final = ("oldImage", "newImage")

_WHOLE_BITS: Final = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_FLOATING: Final = (FloatType, DoubleType)


def ddl_with_images(columns: StructType, item_schema: str) -> str:
    """Return a format's columns as DDL with typed images, for Spark to parse: only the JVM can."""
    parts = []
    for column in columns.fields:
        typed = column.name in IMAGES
        type_text = f"STRUCT<{item_schema}>" if typed else column.dataType.simpleString()
        parts.append(f"`{column.name}` {type_text}" + ("" if column.nullable else " NOT NULL"))
    return ", ".join(parts)


def typed_images(schema: pa.Schema, item: StructType) -> pa.Schema:
    """Return Arrow columns in which the images have the item's type."""
    from pyspark.sql.pandas.types import to_arrow_type

    struct = to_arrow_type(item)
    for name in IMAGES:
        schema = schema.set(schema.get_field_index(name), pa.field(name, struct))
    return schema


def with_typed_images(records: pa.RecordBatch, item: StructType) -> pa.RecordBatch:
    """Return records whose images were JSON text with images of the item's type."""
    from pyspark.sql.pandas.types import to_arrow_type

    read, struct = _reader_of(item, "item"), to_arrow_type(item)
    columns = {name: records.column(name) for name in records.schema.names}
    for name in IMAGES:
        images = [
            None if text is None else read({"M": msgspec.json.decode(text)})
            for text in columns[name].to_pylist()
        ]
        columns[name] = pa.array(images, struct)
    return pa.RecordBatch.from_arrays(
        list(columns.values()), schema=typed_images(records.schema, item)
    )


def _reader_of(wanted: DataType, path: str) -> Callable[[dict[str, Any]], Any]:
    """Return what reads an attribute, `{"N": "42"}`, as a type."""
    match wanted:
        case StructType():
            fields = {f.name: _reader_of(f.dataType, f"{path}.{f.name}") for f in wanted.fields}
            return _expecting(path, wanted, {"M": lambda value: _struct(value, fields)})
        case MapType():
            read_value = _reader_of(wanted.valueType, f"{path}[…]")
            return _expecting(
                path, wanted, {"M": lambda value: [(k, read_value(v)) for k, v in value.items()]}
            )
        case ArrayType():
            read_item = _reader_of(wanted.elementType, f"{path}[]")
            return _expecting(
                path,
                wanted,
                {
                    "L": lambda value: [read_item(each) for each in value],
                    "SS": lambda value: [read_item({"S": each}) for each in value],
                    "NS": lambda value: [read_item({"N": each}) for each in value],
                    "BS": lambda value: [read_item({"B": each}) for each in value],
                },
            )
        case BinaryType():
            return _expecting(path, wanted, {"B": base64.b64decode})
        case BooleanType():
            return _expecting(path, wanted, {"BOOL": bool})
        case StringType():
            return _expecting(path, wanted, {"S": str, "N": str})
        case DecimalType():
            digits, scale = wanted.precision, wanted.scale
            return _expecting(path, wanted, {"N": lambda text: _decimal(text, digits, scale)})
    for kind, bits in _WHOLE_BITS.items():
        if isinstance(wanted, kind):
            return _expecting(path, wanted, {"N": partial(_whole, bits=bits)})
    if isinstance(wanted, _FLOATING):
        return _expecting(path, wanted, {"N": float})
    raise ConfigurationError(
        f"option itemSchema: {path} is {wanted.simpleString()}, which no attribute of DynamoDB is"
    )


def _expecting(
    path: str, wanted: DataType, readers: dict[str, Callable[[Any], Any]]
) -> Callable[[dict[str, Any]], Any]:
    def read(attribute: dict[str, Any]) -> Any:
        ((kind, value),) = attribute.items()
        if kind == "NULL":
            return None
        if kind not in readers:
            raise ConfigurationError(_misfit(path, wanted, kind))
        try:
            return readers[kind](value)
        except ConfigurationError:
            raise
        except (ValueError, ArithmeticError):  # the value itself is not ours to print
            raise ConfigurationError(_misfit(path, wanted, f"{kind} of another form")) from None

    return read


def _misfit(path: str, wanted: DataType, found: str) -> str:
    return (
        f"option itemSchema: {path} is declared {wanted.simpleString()}, but an image has {found}: "
        "declare what is there, or read images as text without itemSchema"
    )


def _struct(
    value: dict[str, Any], fields: dict[str, Callable[[dict[str, Any]], Any]]
) -> dict[str, Any]:
    return {name: read(value[name]) if name in value else None for name, read in fields.items()}


def _decimal(text: str, digits: int, scale: int) -> Decimal:
    number = Decimal(text)
    if number != number.quantize(Decimal(1).scaleb(-scale), context=Context(prec=digits)):
        raise ValueError(text)
    return number


def _whole(text: str, bits: int) -> int:
    number = Decimal(text)
    if number != number.to_integral_value() or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(text)
    return int(number)
