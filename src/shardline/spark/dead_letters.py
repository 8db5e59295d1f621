"""Where records go that a consumer could not process: durable before the consumer goes on."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from shardline.errors import ConfigurationError, ServiceError
from shardline.services.clients import Access, make_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.spark.consumer import ShardBatch
    from shardline.spark.options import Connection

_PUT_AT_ONCE = 500
_PUT_ATTEMPTS = 10


class DeadLetters(Protocol):
    """A safe place."""

    def write(self, batch: ShardBatch, reason: str) -> None:
        """Write the records with the reason; return only when that is durable."""


def open_dead_letters(to: str, connection: Connection) -> DeadLetters:
    """Return the place at `kinesis://STREAM`, `dynamodb://TABLE` or `file:///FOLDER`."""
    scheme, _, name = to.partition("://")
    access = Access(connection.region, connection.endpoint_url, connection.profile)
    match scheme:
        case "kinesis" if name:
            return _StreamOfLetters(make_client("kinesis", access), name)
        case "dynamodb" if name:
            # The stream's endpoint is another server than DynamoDB's: the environment names it.
            access = Access(connection.region, None, connection.profile)
            return _TableOfLetters(make_client("dynamodb", access), name)
        case "file" if name.startswith("/"):
            return _FolderOfLetters(Path(url2pathname(urlsplit(to).path)))
    raise ConfigurationError(
        f"{to!r} is no place for dead letters: write kinesis://STREAM, dynamodb://TABLE or "
        "file:///FOLDER"
    )


def letters(batch: ShardBatch, reason: str) -> Iterator[dict[str, Any]]:
    """Write each record of a batch as JSON values, with where it came from and why it is here."""
    for row in batch.arrow.to_pylist():
        yield {
            "id": f"{batch.shard_id}/{row['sequenceNumber']}/{row.get('subSequenceNumber', 0)}",
            "reason": reason,
            "shardId": batch.shard_id,
            "fence": list(batch.fence),
            "record": {name: _plain(value) for name, value in row.items()},
        }


class _FolderOfLetters:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, batch: ShardBatch, reason: str) -> None:
        """Append to the shard's file, and wait for the disk."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9_-]", "_", batch.shard_id)
        with (self._folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            for letter in letters(batch, reason):
                file.write(json.dumps(letter, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


class _TableOfLetters:
    def __init__(self, client: Any, table_name: str) -> None:
        self._client = client
        self._table_name = table_name

    def write(self, batch: ShardBatch, reason: str) -> None:
        """Put one item for each record; writing it again changes nothing."""
        for letter in letters(batch, reason):
            self._client.put_item(
                TableName=self._table_name,
                Item={
                    "id": {"S": letter["id"]},
                    "reason": {"S": reason},
                    "letter": {"S": json.dumps(letter, ensure_ascii=False)},
                },
            )


class _StreamOfLetters:
    def __init__(self, client: Any, stream_name: str) -> None:
        self._client = client
        self._stream_name = stream_name

    def write(self, batch: ShardBatch, reason: str) -> None:
        """Put one record for each, under its own partition key where it has one."""
        entries = [
            {
                "PartitionKey": letter["record"].get("partitionKey") or letter["id"],
                "Data": json.dumps(letter, ensure_ascii=False).encode(),
            }
            for letter in letters(batch, reason)
        ]
        for first in range(0, len(entries), _PUT_AT_ONCE):
            self._put(entries[first : first + _PUT_AT_ONCE])

    def _put(self, entries: list[dict[str, Any]]) -> None:
        for _ in range(_PUT_ATTEMPTS):
            answer = self._client.put_records(StreamName=self._stream_name, Records=entries)
            if not answer["FailedRecordCount"]:
                return
            entries = [
                entry
                for entry, result in zip(entries, answer["Records"], strict=True)
                if "ErrorCode" in result
            ]
        raise ServiceError(f"{len(entries)} dead letters were refused by {self._stream_name}")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
