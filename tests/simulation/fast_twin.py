"""A twin that does not decode empty pages anew each time: most pages of a simulation are empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa

from shardline.local.kinesis.records import get_records, shard_of_iterator
from shardline.local.kinesis.requests import MAX_READ_RECORDS
from shardline.services.port import Page
from shardline.services.wire.columns import KINESIS_COLUMNS
from shardline.services.wire.kinesis import decode_kinesis
from tests.twins.kinesis import KinesisTwin

_NOTHING: Final = pa.RecordBatch.from_pylist([], KINESIS_COLUMNS)
_EMPTY_HEAD: Final = b'{"Records":[]'


class FastTwin(KinesisTwin):
    """Answers as its base does. Knows until when each shard was read before a pause of hours."""

    def __init__(self, shards: int = 1, **named: Any) -> None:
        super().__init__(shards, **named)
        self.read_until: dict[str, datetime] = {}
        self._read_at: dict[str, datetime] = {}

    def read(self, iterator: str, max_records: int) -> Page:
        request = {"ShardIterator": iterator, "Limit": min(max_records, MAX_READ_RECORDS)}
        now_ms = self.clock.now_ms()
        with self._calling("GetRecords", shard_of_iterator(iterator)):
            body = get_records(self.account, request, now_ms)
        time = datetime.fromtimestamp(now_ms / 1000, UTC)
        self.note_read(shard_of_iterator(iterator), time)
        if body.startswith(_EMPTY_HEAD) and b'"ChildShards"' not in body:
            rest = msgspec.json.decode(body)
            return Page(_NOTHING, rest["NextShardIterator"], rest["MillisBehindLatest"], (), time)
        answer = decode_kinesis(body)
        return Page(answer.records, answer.next_iterator, answer.behind_ms, answer.children, time)

    def note_read(self, shard_id: str, time: datetime) -> None:
        last = self._read_at.get(shard_id)
        if last is not None and time - last > timedelta(hours=1):
            self.read_until[shard_id] = last
        self._read_at[shard_id] = time
