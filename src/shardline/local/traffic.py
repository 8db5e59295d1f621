"""Numbered events and random reshards for any Kinesis endpoint, to test or demonstrate order.

One thread writes the records of a key one after the other, so the written order of each key is
known; the answers of the service give the shard of each record.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from shardline.core.promise import PromiseChecker, RecordRef
from shardline.core.shards import HASH_SPACE_END

_ATTEMPTS: Final = 10
_PAUSE_SECONDS: Final = 0.2
_STALE: Final = ("InvalidArgumentException", "ResourceNotFoundException", "ResourceInUseException")


class Traffic:
    """Threads that write numbered events, each under its own keys, until stopped."""

    def __init__(
        self,
        client: Any,
        stream_name: str,
        keys: Sequence[str],
        *,
        writers: int = 4,
        pause_seconds: float = 0.0,
    ) -> None:
        self._client = client
        self._stream_name = stream_name
        self._pause_seconds = pause_seconds
        self._stop = threading.Event()
        self._written: list[list[tuple[str, RecordRef]]] = [[] for _ in range(writers)]
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._write, args=(keys[n::writers], log), daemon=True)
            for n, log in enumerate(self._written)
        ]

    def start(self) -> Traffic:
        """Start the writers and return this object."""
        for thread in self._threads:
            thread.start()
        return self

    def end(self) -> None:
        """Stop every writer after its current event."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """Stop every writer, and raise the first error that one of them had."""
        self.end()
        if self._failure is not None:
            raise self._failure

    @property
    def count(self) -> int:
        """The number of events that the service has accepted so far."""
        return sum(map(len, self._written))

    def report_to(self, checker: PromiseChecker) -> None:
        """Report the written records to the checker. Complete only after `stop`."""
        for log in self._written:
            for shard_id, record in log:
                checker.wrote(shard_id, record)

    def _write(self, keys: Sequence[str], log: list[tuple[str, RecordRef]]) -> None:
        number = 0
        try:
            while not self._stop.is_set():
                for key in keys:
                    answer = self._client.put_record(
                        StreamName=self._stream_name,
                        PartitionKey=key,
                        Data=json.dumps({"key": key, "number": number}).encode(),
                    )
                    record = RecordRef(key, int(answer["SequenceNumber"]))
                    log.append((answer["ShardId"], record))
                    if self._stop.wait(self._pause_seconds):
                        return
                number += 1
        except BaseException as failure:
            self._failure = failure


def reshard_once(client: Any, stream_name: str, rng: random.Random, *, most_open: int = 8) -> str:
    """Split or merge random open shards, wait until the stream is active, and return a summary."""
    waiter = client.get_waiter("stream_exists")
    pause = {"Delay": _PAUSE_SECONDS, "MaxAttempts": 600}
    for attempt in range(_ATTEMPTS):
        waiter.wait(StreamName=stream_name, WaiterConfig=pause)
        try:
            done = _reshard(client, stream_name, rng, most_open)
        except ClientError as error:
            # The listing was stale: it showed a shard as open that is closed.
            if attempt + 1 == _ATTEMPTS or error.response["Error"]["Code"] not in _STALE:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            waiter.wait(StreamName=stream_name, WaiterConfig=pause)
            return done
    raise AssertionError("the last attempt returns or raises")


def _reshard(client: Any, stream_name: str, rng: random.Random, most_open: int) -> str:
    shards = client.describe_stream(StreamName=stream_name)["StreamDescription"]["Shards"]
    still_open = [s for s in shards if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
    still_open.sort(key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))
    if len(still_open) > 1 and (len(still_open) >= most_open or rng.random() < 0.5):
        left = rng.randrange(len(still_open) - 1)
        pair = [shard["ShardId"] for shard in still_open[left : left + 2]]
        client.merge_shards(
            StreamName=stream_name, ShardToMerge=pair[0], AdjacentShardToMerge=pair[1]
        )
        return f"merged {pair[0]} and {pair[1]}"
    shard = rng.choice(still_open)
    start = int(shard["HashKeyRange"]["StartingHashKey"])
    end = min(int(shard["HashKeyRange"]["EndingHashKey"]), HASH_SPACE_END)
    client.split_shard(
        StreamName=stream_name,
        ShardToSplit=shard["ShardId"],
        NewStartingHashKey=str((start + end + 1) // 2),
    )
    return f"split {shard['ShardId']}"
