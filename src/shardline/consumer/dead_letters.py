"""Where records go that a consumer could not process: durable before the consumer goes on."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from shardline.errors import ConfigurationError, ServiceError
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.consumer.consumer import ShardBatch

logger = logging.getLogger(__name__)

_PUT_AT_ONCE: Final = 500
_PUT_BYTES_AT_ONCE: Final = 4_000_000
"""The service takes 5 MB with the keys."""
_PUT_ATTEMPTS: Final = 10


class LetterBox(Protocol):
    """A place for dead letters."""

    def write(self, batch: ShardBatch, reason: str) -> tuple[str, ...]:
        """Write a letter for each record; return their ids, in order, when all are durable.

        To write the same records again changes nothing but their reason and fence.
        """


def open_dead_letters(to: str, access: Access, patience: Patience | None = None) -> LetterBox:
    """Return the place at `kinesis://STREAM`, `dynamodb://TABLE` or `file:///FOLDER`."""
    scheme, _, name = to.partition("://")
    patience = patience or Patience()
    match scheme:
        case "kinesis" if name:
            calls = Calls(make_client("kinesis", access), f"dead letters to {to}", patience)
            return _StreamOfLetters(calls, name, patience)
        case "dynamodb" if name:
            # The stream's endpoint is another server than DynamoDB's: the environment names it.
            access = replace(access, endpoint_url=None)
            calls = Calls(make_client("dynamodb", access), f"dead letters to {to}", patience)
            return _TableOfLetters(calls, name)
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

    def write(self, batch: ShardBatch, reason: str) -> tuple[str, ...]:
        """Append to the shard's file, and wait for the disk."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9_-]", "_", batch.shard_id)
        with (self._folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            for letter in letters(batch, reason):
                file.write(json.dumps(letter, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return tuple(letter["id"] for letter in letters(batch, reason))


class _TableOfLetters:
    def __init__(self, calls: Calls, table_name: str) -> None:
        self._calls = calls
        self._table_name = table_name

    def write(self, batch: ShardBatch, reason: str) -> tuple[str, ...]:
        """Put one item for each record; writing it again changes nothing."""
        for letter in letters(batch, reason):
            self._calls.call(
                "put_item",
                TableName=self._table_name,
                Item={
                    "id": {"S": letter["id"]},
                    "reason": {"S": reason},
                    "letter": {"S": json.dumps(letter, ensure_ascii=False)},
                },
            )
        return tuple(letter["id"] for letter in letters(batch, reason))


class _StreamOfLetters:
    def __init__(self, calls: Calls, stream_name: str, patience: Patience) -> None:
        self._calls = calls
        self._stream_name = stream_name
        self._patience = patience

    def write(self, batch: ShardBatch, reason: str) -> tuple[str, ...]:
        """Put one record for each, under its own partition key where it has one."""
        entries: list[dict[str, Any]] = []
        size = 0
        for letter in letters(batch, reason):
            key = letter["record"].get("partitionKey") or letter["id"]
            data = json.dumps(letter, ensure_ascii=False).encode()
            if len(entries) == _PUT_AT_ONCE or (entries and size + len(data) > _PUT_BYTES_AT_ONCE):
                self._put(entries)
                entries, size = [], 0
            entries.append({"PartitionKey": key, "Data": data})
            size += len(data)
        self._put(entries)
        return tuple(letter["id"] for letter in letters(batch, reason))

    def _put(self, entries: list[dict[str, Any]]) -> None:
        """Put until all are taken: one call may take some and refuse others."""
        for attempt in range(_PUT_ATTEMPTS):
            answer = self._calls.call("put_records", StreamName=self._stream_name, Records=entries)
            results = list(zip(entries, answer["Records"], strict=True))
            entries = [entry for entry, result in results if "ErrorCode" in result]
            if not entries:
                return
            codes = {result["ErrorCode"] for _, result in results if "ErrorCode" in result}
            delay = self._patience.delay_seconds(attempt)
            logger.warning(
                "%d dead letters to %s refused (%s); trying again in %.1f s",
                len(entries),
                self._stream_name,
                ", ".join(sorted(codes)),
                delay,
            )
            self._patience.sleep(delay)
        raise ServiceError(
            f"{len(entries)} dead letters were refused by {self._stream_name} {_PUT_ATTEMPTS} "
            "times: give the stream more shards"
        )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
