"""The embedded service as an object of this process."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import boto3
from aiohttp import web

from shardline.errors import ConfigurationError
from shardline.local.admission import Admission
from shardline.local.clock import Clock
from shardline.local.control import Control
from shardline.local.dynamodb.database import Database
from shardline.local.dynamodb.operations import DynamoDBBackend
from shardline.local.dynamodb_streams.control import Tables
from shardline.local.dynamodb_streams.operations import DynamoDBStreamsBackend
from shardline.local.faults import Faults
from shardline.local.journal import Journal
from shardline.local.kinesis.account import Account
from shardline.local.kinesis.operations import Kinesis
from shardline.local.limits import Limits
from shardline.local.refusals import Refusal
from shardline.local.replay import DATABASE, TABLE, restore
from shardline.local.server import MAX_REQUEST_BYTES, Server, drop_content_type
from shardline.local.settings import REGION, Settings
from shardline.local.whole_answers import repeat_cut_answers
from shardline.services.access import is_loopback
from shardline.services.listening import listen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from botocore.config import Config

    from shardline.local.backend import Backend

_logger = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 512
_STOP_SECONDS: Final = 10.0


class Service:
    """Kinesis, DynamoDB and DynamoDB Streams over HTTP, by default on a free port of this machine.

    It runs in a thread of this process and serves clients of any process. It checks no signatures:
    every client that can reach the port has full access. With a `file`, a restart restores all
    streams and tables, also after a crash: no call is answered before its effect is on disk.

    `strict` makes it as unpleasant as AWS can be: limits on, status delays, empty pages in
    mid-shard, stale listings and answers that are cut, all repeatable by `seed`. The other options
    have precedence over it. Requests for other hosts than loopback, `host` and `allowed_hosts` are
    refused, and so are those of web pages of other origins.
    """

    def __init__(
        self,
        host: str = LOOPBACK,
        port: int = 0,
        *,
        strict: bool = False,
        clock: Clock | None = None,
        limits: bool | None = None,
        status_delay_seconds: float | None = None,
        empty_page_every: int | None = None,
        seed: int = 0,
        file: Path | str | None = None,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        self.clock = clock or Clock()
        self.faults = Faults(seed)
        self.limits = Limits(enabled=strict if limits is None else limits)
        self.settings = Settings.strict() if strict else Settings()
        if status_delay_seconds is not None:
            self.settings.status_delay_ms = round(status_delay_seconds * 1000)
        if empty_page_every is not None:
            self.settings.empty_page_every = empty_page_every
        self.kinesis = Kinesis(Account(self.faults, self.limits, self.settings))
        self.tables = Tables(self.clock)
        self.dynamodb = DynamoDBStreamsBackend(self.tables, self.faults, self.settings)
        self.database = Database(self.tables, self.settings)
        self._journal = None if file is None else self._open_journal(Path(file))
        backends: dict[str, Backend] = {
            "kinesis": self.kinesis,
            "dynamodb": self.dynamodb,
            "tables": DynamoDBBackend(self.database),
        }
        remedy = "check the host, or pass another port (0 is any free one)"
        self._socket = listen(host, port, remedy, _BACKLOG)
        if not is_loopback(host):
            _logger.warning(
                "listening on %s, which is not loopback: every client that can reach the port has "
                "full access",
                host or "every address",
            )
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._runner = web.AppRunner(
            _application(self, backends, Admission(host, allowed_hosts), self._journal),
            access_log=None,
            shutdown_timeout=1.0,
        )
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shardline-local", daemon=True)
        self._thread.start()
        self._started.wait()

    @property
    def endpoint_url(self) -> str:
        """The endpoint URL for clients."""
        host = LOOPBACK if self.host in ("0.0.0.0", "::", "") else self.host  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def client(self, service_name: str = "kinesis", config: Config | None = None) -> Any:
        """Return a boto3 client for "kinesis", "dynamodb" or "dynamodbstreams" of this service.

        boto3 takes an answer that was cut for a whole one without members. This client repeats
        the call instead.
        """
        client = boto3.client(
            service_name,
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id="local",
            aws_secret_access_key="local",  # noqa: S106 - any will do
            config=config,
        )
        repeat_cut_answers(client)
        return client

    def shard_counts(self) -> dict[str, int]:
        """Return the Kinesis streams with the number of shards that each has or will have."""

        async def counts() -> dict[str, int]:
            streams = self.kinesis.account.streams(self.clock.now_ms())
            return {stream.name: stream.requested_shards() for stream in streams}

        return asyncio.run_coroutine_threadsafe(counts(), self._loop).result()

    def create_stream(self, name: str, shards: int = 1) -> None:
        """Create a provisioned stream without a client. Raises `ConfigurationError` if refused."""
        request = {"StreamName": name, "ShardCount": shards}

        async def create() -> None:
            self.kinesis.call("CreateStream", request, self.clock.now_ms())
            if self._journal is not None:
                await self._journal.flushed()

        try:
            asyncio.run_coroutine_threadsafe(create(), self._loop).result()
        except Refusal as refusal:
            raise ConfigurationError(f"stream {name}: {refusal.message}") from None

    def stop(self) -> None:
        """Close the port and end the thread. A second call has no effect."""
        if self._thread.is_alive():
            self.faults.clear()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_SECONDS)
            if self._journal is not None:
                self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _open_journal(self, path: Path) -> Journal:
        journal = Journal(path)
        restore(journal, self.clock, self.kinesis, self.tables, self.database)

        def journal_change(operation: str, request: dict[str, Any], now_ms: int) -> None:
            journal.append(now_ms, TABLE, (operation, request))
            if threading.get_ident() != self._thread.ident:
                journal.commit()  # called from Python: calls over HTTP flush before they answer

        self.tables.on_change = journal_change
        self.database.on_change = lambda now_ms, change: journal.append(now_ms, DATABASE, change)
        self.kinesis.journal = journal
        self.kinesis.account.keeps_written = True
        return journal

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._start())
            self._started.set()
            self._loop.run_forever()
            self._loop.run_until_complete(self._runner.cleanup())
            self._loop.run_until_complete(_cancel_others())
        finally:
            self._started.set()
            self._loop.close()

    async def _start(self) -> None:
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, backlog=_BACKLOG).start()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _application(
    service: Service, backends: dict[str, Backend], admission: Admission, journal: Journal | None
) -> web.Application:
    server = Server(
        tuple(backends.values()),
        service.clock,
        service.faults,
        service.settings,
        admission,
        journal,
    )
    control = Control(service.clock, service.kinesis.account, backends, admission, journal)
    application = web.Application(client_max_size=MAX_REQUEST_BYTES)
    application.on_response_prepare.append(drop_content_type)
    application.on_shutdown.append(server.close)
    application.router.add_post("/_shardline/{path:.+}", control.answer)
    # AWS does not look at the path.
    application.router.add_route("*", "/{path:.*}", server.answer)
    return application
