"""Dead letters in a Kinesis stream: one record for each letter, or for a part of a large one."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from shardline.consumer.letters.letter import Letter, Origin, Redriven, in_parts, letters_for
from shardline.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shardline.consumer.consumer import ShardBatch
    from shardline.services.calls import Calls, Patience

logger = logging.getLogger(__name__)

_MOST_BYTES: Final = 900_000
"""A record has at most 1 MiB, with its partition key."""
_LONGEST_KEY: Final = 256
_PUT_AT_ONCE: Final = 500
_PUT_BYTES_AT_ONCE: Final = 4_000_000
"""A call takes 5 MiB, with the keys."""
_PUT_ATTEMPTS: Final = 10


class StreamOfLetters:
    """Puts records under the partition keys that the letters' own records have."""

    def __init__(self, calls: Calls, stream_name: str, origin: Origin, patience: Patience) -> None:
        self._calls = calls
        self._stream_name = stream_name
        self._origin = origin
        self._patience = patience

    def write(
        self, batch: ShardBatch, reason: str, *, parked: bool = False, hash_key: str | None = None
    ) -> tuple[str, ...]:
        """Put the records of each letter."""
        at = datetime.now(UTC)
        letters = letters_for(batch, reason, self._origin, at, parked=parked, hash_key=hash_key)
        self._put_all(
            (letter, line) for letter in letters for line in in_parts(letter, _MOST_BYTES)
        )
        return tuple(letter.id for letter in letters)

    def remove(self, letters: Sequence[Letter]) -> None:
        """Put a mark for each letter."""
        self._put_all((x, Redriven(x.id, x.fence).to_bytes()) for x in letters)

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()

    def _put_all(self, lines: Iterable[tuple[Letter, bytes]]) -> None:
        for entries in _calls_of(lines):
            self._put(entries)

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


def _calls_of(lines: Iterable[tuple[Letter, bytes]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the entries of each call, as many as a call takes."""
    entries: list[dict[str, Any]] = []
    size = 0
    for letter, line in lines:
        if len(entries) == _PUT_AT_ONCE or (entries and size + len(line) > _PUT_BYTES_AT_ONCE):
            yield entries
            entries, size = [], 0
        key = (letter.key or letter.id)[:_LONGEST_KEY]
        entries.append({"PartitionKey": key, "Data": line})
        size += len(line) + 4 * len(key)
    if entries:
        yield entries
