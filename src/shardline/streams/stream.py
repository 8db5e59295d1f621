"""A stream as a Python iterator: records of all shards in one order, and a place to come back to.

No order is promised between unrelated shards: no service gives one. What is promised is in
`shardline.core.merging`: everything of a shard in its written order, everything of its ancestors
before it, and otherwise by the time of creation.

**What waits for what.** Shards are merged across pages, so a record is delivered when each other
shard has shown its next record, or is at its tip. A shard that neither answers nor reaches its
tip holds the others for `patience_seconds` and no longer; then they go on without it until it
gives a record. At the tip nothing is held back: a record that one shard shows a moment later than
another may come later, though created earlier.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from operator import length_hint
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from shardline.errors import ConfigurationError, ServiceError, ShardlineError
from shardline.services.access import Access
from shardline.services.connection import connect
from shardline.streams.gaps import Gap, GapPolicy, OnGap
from shardline.streams.inline_executor import Here
from shardline.streams.ledger import Ledger
from shardline.streams.merger import Reading
from shardline.streams.shard_buffer import Pace
from shardline.streams.tokens import from_token, parse_start, to_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor
    from datetime import datetime
    from types import TracebackType

    from shardline.services.port import StreamService

R = TypeVar("R")


class Stream(Generic[R]):
    """All records of a stream, one at a time. For one thread; only `close` may come from another.

    `next(stream)` gives a record, or None when there is none now: it never ends. A `for` loop
    gives records only and waits while there are none, until `close()` ends it:

        with shardline.stream("kinesis://orders", "latest") as stream:
            for record in stream:
                ...

    Both move the same stream, so that they can be mixed.
    """

    def __init__(
        self,
        service: StreamService,
        position: str | datetime | Mapping[str, Any],
        *,
        on_gap: OnGap = "fail",
        poll_seconds: float = 0.25,
        patience_seconds: float = 2.0,
        list_seconds: float = 5.0,
        page_size: int = 10_000,
        connections: int = 8,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if page_size < 1 or connections < 1:
            raise ConfigurationError("page_size and connections: pass at least 1")
        self._service = service
        self._on_gap: OnGap = on_gap
        self._gaps: list[Gap] = []
        self._pace = Pace(poll_seconds, patience_seconds, page_size)
        self._list_seconds = list_seconds
        self._clock = clock
        self._closed = threading.Event()
        self._executor: Executor = (
            Here() if connections == 1 else ThreadPoolExecutor(connections, "shardline-stream")
        )
        self._run: list[R] = []
        self._rest = iter(self._run)
        self._reading = self._read_from(position)

    # --- records ------------------------------------------------------------------------------

    def __next__(self) -> R | None:
        record = next(self._rest, None)
        return self._next_of_next_run() if record is None else record

    def __iter__(self) -> Iterator[R]:
        while not self._closed.is_set():
            try:
                record = next(self)
            except Exception:
                if self._closed.is_set():  # in the middle of a call
                    return
                raise
            if record is None:
                self._closed.wait(self._pace.poll_seconds)
            else:
                yield record

    def _next_of_next_run(self) -> R | None:
        if self._closed.is_set():
            raise ShardlineError(f"{self._description.name}: this stream was closed: open another")
        self._run = self._reading.next_run()
        self._rest = iter(self._run)
        return next(self._rest, None)

    # --- places -------------------------------------------------------------------------------

    @property
    def token(self) -> dict[str, Any]:
        """The place behind the last record that was given out, as plain JSON.

        Costs nothing, except from "latest" on while no record has come: then each shard is
        looked into once, so that the token means the same place for ever.
        """
        self._settle()
        self._reading.pin()
        return to_token(self._reading.ledger, self._description)

    def move_to(self, position: str | datetime | Mapping[str, Any]) -> None:
        """Go to a token, an aware time, "trim_horizon" or "latest".

        A time is that of the first record to come: before it records are left out, after it
        none is. Anything else is an `InvalidPosition`, and the stream stays where it was.
        """
        self._reading = self._read_from(position)
        self._run = []
        self._rest = iter(self._run)

    def heartbeat(self) -> None:
        """Keep the place while `next` is not called: every 12 minutes, or in a tight loop.

        A shard whose place is a sequence number is asked once in four hours. Where only an
        iterator holds it ("latest", and no record since), once in 12 minutes (Kinesis: in 4).
        If such an iterator expires all the same, reading goes on a little before the place:
        nothing is lost, but records from just before "latest" may come.
        """
        self._reading.heartbeat()

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps met and accepted so far: `on_gap="go_on"`."""
        return tuple(self._gaps)

    def close(self) -> None:
        """End every `for` loop over this stream, and let go of connections. The token stays."""
        if not self._closed.is_set():
            self._closed.set()
            self._reading.executor = Here()
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _settle(self) -> None:
        self._reading.settle(len(self._run) - length_hint(self._rest))

    def _read_from(self, position: str | datetime | Mapping[str, Any]) -> Reading:
        start = parse_start(position)
        description = self._service.describe()
        if not description.active:
            raise ServiceError(f"{description.name} is still being made: try again in a moment")
        if start is None:
            ledger = from_token(position, description)
            ledger.see(self._service.list_shards())
        else:
            ledger = Ledger.beginning(self._service.list_shards(), start)
        reading = Reading(
            self._service,
            ledger,
            GapPolicy(self._on_gap, description.name, self._gaps),
            retention_seconds=description.retention_seconds,
            pace=self._pace,
            list_seconds=self._list_seconds,
            executor=self._executor,
            clock=self._clock,
        )
        reading.open()
        self._description = description
        return reading


def stream(
    address: str,
    position: str | datetime | Mapping[str, Any],
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    role_arn: str | None = None,
    external_id: str | None = None,
    on_gap: OnGap = "fail",
    poll_seconds: float = 0.25,
    patience_seconds: float = 2.0,
    list_seconds: float = 5.0,
    page_size: int = 10_000,
    connections: int = 8,
) -> Stream[Any]:
    """Read the stream at `kinesis://name` or `dynamodb://table` from a position on.

    The position is "trim_horizon", "latest", an aware datetime, or a token. What is not given
    comes from the usual AWS environment. `on_gap` says what happens where records expired before
    they were read: "fail" raises `GapError`, "go_on" notes it in `Stream.gaps`.

    A shard at its tip is read every `poll_seconds`, shards are listed every `list_seconds` and
    whenever one ends. `patience_seconds` is how long a shard may hold up the others' records.
    """
    return open_stream(
        address,
        position,
        Access(region, endpoint_url, profile, role_arn, external_id),
        on_gap=on_gap,
        poll_seconds=poll_seconds,
        patience_seconds=patience_seconds,
        list_seconds=list_seconds,
        page_size=page_size,
        connections=connections,
    )


def open_stream(
    address: str, position: str | datetime | Mapping[str, Any], access: Access, **options: Any
) -> Stream[Any]:
    """Open a stream with the `options` of `stream`."""
    service = connect(address, access)
    try:
        return Stream(service, position, **options)
    except BaseException:
        service.close()
        raise
