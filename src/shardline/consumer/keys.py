"""The key of each record: what its order is promised for, as one column of text.

For Kinesis that is the partition key. For DynamoDB Streams it is the value of the table's hash
key, in the service's own JSON (`{"S":"a"}`), cut out of the column `keys`, which also has the range
key where a table has one.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from shardline.errors import ConfigurationError


def keys_of(records: pa.RecordBatch, hash_key: str | None = None) -> pa.StringArray:
    """Return the key of each record.

    `hash_key` is the name of the table's hash key. It may be left out for Kinesis, and for a
    table without a range key; otherwise a `ConfigurationError` says that it is missing.
    """
    if "partitionKey" in records.schema.names:
        return records.column("partitionKey")
    texts = records.column("keys")
    if not len(texts):
        return texts
    value = r'\{"[A-Z]+"\s*:\s*"(?:[^"\\]|\\.)*"\s*\}'
    name = json_text(hash_key or _only_attribute(texts[0].as_py()))
    # No match inside another attribute's value: a quote in a JSON text has a backslash before it.
    found = pc.extract_regex(texts, pattern=rf"{re.escape(name)}\s*:\s*(?P<key>{value})")
    if found.null_count:
        row = pc.index(pc.is_null(found), value=True).as_py()
        raise ConfigurationError(
            f"the keys {texts[row].as_py()} have no attribute {name}: name the table's hash key"
        )
    return pc.struct_field(found, "key")


def json_text(value: Any) -> str:
    """Return a value as the JSON text in which the service writes it."""
    return msgspec.json.encode(value).decode()


def _only_attribute(text: str) -> str:
    names = list(msgspec.json.decode(text))
    if len(names) != 1:
        raise ConfigurationError(
            f"the table's hash key is one of {', '.join(names)}: it must be known for lanes and "
            'for DeadLetter(per="key")'
        )
    return str(names[0])
