"""A stream as a Python iterator: the records of all shards in one order, with a token to resume.

No order is promised between unrelated shards, because no service gives one. What is promised is in
`shardline.core.merging`: the records of a shard in written order, after all records of its
ancestors, and otherwise by creation time.

**What waits for what.** A record is delivered when the next record of each other shard is known, or
that shard is at its tip. A shard that neither answers nor reaches its tip holds up the others for
at most `patience_seconds`; then they go on without it until it returns a record. At the tip nothing
is held back: a record that becomes readable later than another may be delivered later, though it
was created earlier.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from shardline.errors import ConfigurationError, ServiceError, ShardlineError
from shardline.services.access import Access
from shardline.services.fan_out.registration import ensure_consumer
from shardline.streams.gaps import GapPolicy, OnGap
from shardline.streams.html import shards_html
from shardline.streams.inline_executor import InlineExecutor
from shardline.streams.ledger import Ledger
from shardline.streams.merger import StreamMerger
from shardline.streams.shard_buffer import ReadSettings
from shardline.streams.successors import StreamSuccession
from shardline.streams.tokens import from_token, parse_start, to_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor
    from datetime import datetime

    from shardline.core.gaps import Gap
    from shardline.services.pace import Quota
    from shardline.services.port import StreamService

logger = logging.getLogger(__name__)

R = TypeVar("R")

_PUSHED_POLL_SECONDS: Final = 0.05
"""To ask whether something was pushed costs no call of the service."""
_READ_AHEAD_BYTES: Final = 128 * 1024 * 1024
"""Of all shards of a stream together. Each shard may have one page in any case."""


class Stream(Generic[R]):
    """All records of a stream, one at a time. For one thread; only `close` may come from another.

    `next(stream)` returns a record, or None if there is none now; it never ends. A `for` loop
    yields records only and waits while there are none, until `close()` ends it:

        with shardline.stream("kinesis://orders", "latest") as stream:
            for record in stream:
                ...

    Both advance the same stream and can be mixed, and so does `async for record in stream`.
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
        quota: Quota | None = None,
        successor_of: Callable[[str], StreamService | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if page_size < 1 or connections < 1:
            raise ConfigurationError("page_size and connections: pass at least 1")
        self._service = service
        self._on_gap: OnGap = on_gap
        self._gaps: list[Gap] = []
        self._settings = ReadSettings(
            poll_seconds,
            patience_seconds,
            page_size,
            read_ahead_bytes=_READ_AHEAD_BYTES if connections > 1 else 0,
            quota=quota,
        )
        self._list_seconds = list_seconds
        self._clock = clock
        self._successor_of = successor_of
        self._ask_for_successor_at = clock()
        self._closed = threading.Event()
        self._executor: Executor = (
            InlineExecutor()
            if connections == 1
            else ThreadPoolExecutor(connections, "shardline-stream")
        )
        self._run: list[R] = []
        self._rest = iter(self._run)
        self._merger = self._merger_at(position)

    # --- records ------------------------------------------------------------------------------

    def __next__(self) -> R | None:
        record = next(self._rest, None)
        return self._first_of_next_run() if record is None else record

    def __iter__(self) -> Iterator[R]:
        while not self._closed.is_set():
            try:
                record = next(self)
            except Exception:
                if self._closed.is_set():  # closed while the call was under way
                    return
                raise
            if record is None:
                self._closed.wait(self._settings.poll_seconds)
            else:
                yield record

    def _first_of_next_run(self) -> R | None:
        self._read_run()
        return next(self._rest, None)

    def _read_run(self) -> None:
        """Read the next records; all of the run before count as delivered."""
        if self._closed.is_set():
            raise self._closed_error()
        self._run = self._merger.next_run()
        self._rest = iter(self._run)
        if not self._run and not self._merger.ledger.places:
            self._follow_successor()

    def __aiter__(self) -> Self:
        """Yield records only, as a `for` loop does; the event loop is free while it waits."""
        return self

    async def __anext__(self) -> R:
        """Return the next record, waiting while there is none. Ends after `close()`.

        Reads run in a thread, one at a time. If the task is cancelled, it ends when the read at
        hand does, and what that read gave is returned by the next call.
        """
        while not self._closed.is_set():
            record = next(self._rest, None)
            if record is not None:
                return record
            try:
                await _in_thread(self._read_run)
            except Exception:
                if self._closed.is_set():
                    break
                raise
            if not self._run:
                await asyncio.sleep(self._settings.poll_seconds)
        raise StopAsyncIteration

    def put_back(self) -> None:
        """Make `next` return the last record once more. The token is then before it."""
        returned = len(self._run) - length_hint(self._rest)
        if returned == 0:
            raise ShardlineError("nothing to put back: no record was returned since the last read")
        self._rest = iter(self._run)
        self._rest.__setstate__(returned - 1)  # type: ignore[attr-defined] # of every list iterator

    # --- position -----------------------------------------------------------------------------

    @property
    def token(self) -> dict[str, Any]:
        """The position after the last record that was returned, as plain JSON.

        Makes no call, except after "latest" while no record has arrived: then each shard is
        read once, so that the token has a lasting meaning.
        """
        returned = len(self._run) - length_hint(self._rest)
        self._merger.record_delivered(returned)
        self._merger.pin()
        return to_token(self._merger.ledger, self._description)

    def move_to(self, position: str | datetime | Mapping[str, Any]) -> None:
        """Move to a token, an aware time, "trim_horizon" or "latest".

        With a time, the next record is the first that arrived at that time or later. Raises
        `InvalidPosition` for anything else; the stream then keeps its position.
        """
        before, self._merger = self._merger, self._merger_at(position)
        before.close()
        self._run = []
        self._rest = iter(self._run)

    def heartbeat(self) -> None:
        """Keep the position while `next` is not called: every 12 minutes, or in a tight loop.

        A shard whose position is a sequence number is read once in four hours. A shard whose
        position only an iterator holds ("latest", and no record since) is read once in 12
        minutes (Kinesis: 4). If such an iterator expires nevertheless, reading resumes a little
        earlier: nothing is lost, but records from just before "latest" may be returned.
        """
        self._merger.heartbeat()

    @property
    def at_tip(self) -> bool:
        """True if every record was returned that the service had at the last read of each shard.

        Kinesis says so itself. DynamoDB Streams does not: there, nothing came for some seconds.
        """
        return length_hint(self._rest) == 0 and self._merger.at_tip

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps that were accepted so far, with `on_gap="go_on"`."""
        return tuple(self._gaps)

    def close(self) -> None:
        """End every `for` loop over this stream and close its connections; `token` stays usable."""
        if not self._closed.is_set():
            self._closed.set()
            self._merger.executor = InlineExecutor()
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        ledger = self._merger.ledger
        parts = [_counted(len(ledger.places), "shard")]
        parts += [_counted(len(self._gaps), "gap")] * bool(self._gaps)
        parts += ["closed"] * self._closed.is_set()
        return f"<Stream {self._description.name}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        """Return the shards of the stream as a table, for notebooks."""
        return shards_html(repr(self)[1:-1], self._merger.ledger)

    def _pause(self, seconds: float) -> None:
        """Wait, or raise as soon as the stream is closed."""
        if self._closed.wait(seconds):
            raise self._closed_error()

    def _closed_error(self) -> ShardlineError:
        return ShardlineError("this stream was closed: open another")

    def _follow_successor(self) -> None:
        """Go on with the stream that replaced this one, which is drained."""
        now = self._clock()
        if self._successor_of is None or now < self._ask_for_successor_at:
            return
        self._ask_for_successor_at = now + self._list_seconds
        drained = self._description.arn
        successor = self._successor_of(drained)
        if successor is None:
            return
        self._service.close()
        self._service = successor
        self._merger = self._merger_at("trim_horizon")
        logger.warning(
            "%s was switched off and on: everything in %s is delivered, going on with %s. Changes "
            "made while it was off are in neither",
            self._description.name,
            drained,
            self._description.arn,
        )

    def _merger_at(self, position: str | datetime | Mapping[str, Any]) -> StreamMerger:
        start = parse_start(position)
        description = self._service.describe()
        if not description.active:
            raise ServiceError(f"{description.name} is still being created: try again in a moment")
        if start is None:
            ledger = from_token(position, description)
            ledger.update_listing(self._service.list_shards())
        else:
            ledger = Ledger.starting_at(start, self._service.list_shards())
        merger = StreamMerger(
            self._service,
            ledger,
            GapPolicy(self._on_gap, description.name, self._gaps),
            retention_seconds=description.retention_seconds,
            settings=self._settings,
            list_seconds=self._list_seconds,
            executor=self._executor,
            clock=self._clock,
            pause=self._pause,
        )
        merger.open()
        self._description = description
        return merger


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
    fan_out: str | None = None,
) -> Stream[Any]:
    """Read the stream at `kinesis://name` or `dynamodb://table` from a position on.

    The position is "trim_horizon", "latest", an aware datetime, or a token. Region, endpoint and
    credentials come from the usual AWS environment unless they are given. `on_gap` decides what
    happens when records expired before they were read: "fail" raises `GapError`, "go_on" adds
    the gap to `Stream.gaps`.

    A shard at its tip is read every `poll_seconds`; shards are listed every `list_seconds` and
    whenever one ends. A shard may hold up the records of others for `patience_seconds`.

    `fan_out` names a consumer of enhanced fan-out, for this stream alone: it is registered if it is
    missing, which costs money, and its shards are pushed; they are polled while they are not.
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
        fan_out=fan_out,
    )


def open_stream(
    address: str,
    position: str | datetime | Mapping[str, Any],
    access: Access,
    *,
    fan_out: str | None = None,
    **options: Any,
) -> Stream[Any]:
    """Return the stream at an address; the options are those of `stream`."""
    if fan_out is not None:
        ensure_consumer(address, access, fan_out)
        options["poll_seconds"] = min(_PUSHED_POLL_SECONDS, options.get("poll_seconds", 1.0))
    succession = StreamSuccession(address, access, fan_out)
    service = succession.service_at(position)
    try:
        return Stream(service, position, successor_of=succession.successor_of, **options)
    except BaseException:
        service.close()
        raise


async def _in_thread(call: Callable[[], None]) -> None:
    """Make a call in a thread. If the task is cancelled, the call ends first.

    So a cancelled task leaves nothing behind that still uses the stream.
    """
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
