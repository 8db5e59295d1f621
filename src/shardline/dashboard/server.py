"""Serves the page on loopback, and pushes snapshots to it as server-sent events."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from shardline.errors import ConfigurationError, ShardlineError

try:
    from aiohttp import web
except ModuleNotFoundError as missing:
    raise ConfigurationError(
        "the page needs aiohttp, which is not installed: pip install 'shardline[local]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from types import TracebackType

    from shardline.observation.watch import Watch

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

logger = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_LOCAL_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_PAGE: Final = Path(__file__).with_name("page")
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_PING_SECONDS: Final = 15.0
_STOP_SECONDS: Final = 5.0
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PageServer:
    """The page of one watch, served from a thread of this process until `stop`.

    Read-only unless a token is given; then `actions`, each a function of a shard id that returns
    what it did, may be called with it.
    """

    def __init__(
        self,
        watch: Watch,
        *,
        port: int = 0,
        token: str | None = None,
        actions: Mapping[str, Callable[[str], str]] | None = None,
        interval_seconds: float = 1.0,
    ) -> None:
        self._watch = watch
        self._token = token
        self._actions = dict(actions or {}) if token else {}
        self._interval_seconds = interval_seconds
        self._latest = _write(watch.snapshot().to_json())  # fails here, in the caller, or never
        self._listeners: set[asyncio.Event] = set()
        self._stopping = threading.Event()
        self._socket = _bind(port)
        self.port: Final = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shardline-page", daemon=True)
        self._thread.start()
        self._started.wait()
        # A thread of its own, and no pool's: those are waited for at the end of the program, and
        # a look at a service that is gone takes long.
        self._watching = threading.Thread(
            target=self._keep_watching, name="shardline-watch", daemon=True
        )
        self._watching.start()

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{LOOPBACK}:{self.port}/"

    def stop(self) -> None:
        """End looking, close the port and end the threads. Stopping twice is harmless."""
        self._stopping.set()
        self._watching.join(_STOP_SECONDS)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=0.2)
        try:
            self._loop.run_until_complete(self._start(runner))
            self._started.set()
            self._loop.run_forever()
            self._wake_listeners()
            self._loop.run_until_complete(runner.cleanup())
            self._loop.run_until_complete(_let_end(asyncio.all_tasks(self._loop)))
        finally:
            self._started.set()
            self._loop.close()

    async def _start(self, runner: web.AppRunner) -> None:
        await runner.setup()
        await web.SockSite(runner, self._socket).start()

    def _wake_listeners(self) -> None:
        for listener in self._listeners:
            listener.set()

    # --- the other thread -----------------------------------------------------------------------

    def _keep_watching(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            try:
                self._latest = _write(self._watch.snapshot().to_json())
            except Exception:
                # A watch reports its own trouble in the snapshot's notice. Whatever else it
                # raises must not end the page: the next look may succeed.
                logger.exception("watching failed; trying again in %s s", self._interval_seconds)
                continue
            with suppress(RuntimeError):  # the loop is closed: stopped while this looked
                self._loop.call_soon_threadsafe(self._wake_listeners)

    # --- the answers --------------------------------------------------------------------------

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[_guard], client_max_size=64 * 1024)
        application.router.add_get("/", _serve_file("index.html"))
        for path in sorted(_PAGE.iterdir()):
            if path.suffix in _TYPES and path.name != "index.html":
                application.router.add_get(f"/{path.name}", _serve_file(path.name))
        application.router.add_get("/about", self._answer_about)
        application.router.add_get("/snapshot", self._answer_snapshot)
        application.router.add_get("/events", self._answer_events)
        application.router.add_post("/actions/{action}", self._answer_action)
        return application

    async def _answer_about(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"actions": sorted(self._actions)})

    async def _answer_snapshot(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text=self._latest, content_type="application/json")

    async def _answer_events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        changed = asyncio.Event()
        self._listeners.add(changed)
        try:
            while not self._stopping.is_set():
                changed.clear()
                await response.write(f"event: snapshot\ndata: {self._latest}\n\n".encode())
                while not changed.is_set():
                    try:
                        await asyncio.wait_for(changed.wait(), _PING_SECONDS)
                    except TimeoutError:
                        await response.write(b": still here\n\n")
        except ConnectionError:  # the browser has gone
            pass
        finally:
            self._listeners.discard(changed)
        return response

    async def _answer_action(self, request: web.Request) -> web.StreamResponse:
        if self._token is None:
            return _say(403, "this page is read-only: start the dashboard with --token to act")
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not hmac.compare_digest(given.encode(), self._token.encode()):
            return _say(401, "wrong token: use the one that the dashboard was started with")
        action = self._actions.get(request.match_info["action"])
        if action is None:
            return _say(404, "there is no such action")
        try:
            body = await request.json()
            shard_id = body["shard_id"]
        except (ValueError, KeyError, TypeError):
            return _say(400, 'send JSON such as {"shard_id": "shardId-000000000000"}')
        try:
            return _say(200, await asyncio.to_thread(action, str(shard_id)))
        except ShardlineError as error:
            return _say(409, str(error))


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer only under a name of this machine, so that no other site can read through a browser.

    A site whose name suddenly resolves to 127.0.0.1 still sends its own name in `Host`, and a
    form on another site sends that site's `Origin`.
    """
    if _host_of(f"//{request.host}") not in _LOCAL_NAMES:
        return _say(421, "open the page as 127.0.0.1 or localhost")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        return _say(403, "requests from other sites are refused")
    try:
        response = await handler(request)
    except web.HTTPException as refusal:
        response = _say(refusal.status, refusal.reason)
    if not response.prepared:
        response.headers.update(_HEADERS)
    return response


async def _let_end(tasks: Iterable[asyncio.Task[object]]) -> None:
    others = [task for task in tasks if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _serve_file(name: str) -> Handler:
    path = _PAGE / name
    content_type = _TYPES[path.suffix]

    async def answer(_request: web.Request) -> web.StreamResponse:
        body = await asyncio.to_thread(path.read_text, encoding="utf-8")
        return web.Response(text=body, content_type=content_type)

    return answer


def _say(status: int, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status, headers=_HEADERS)


def _write(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _bind(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise ConfigurationError(
            f"port {port} of {LOOPBACK} cannot be had ({os.strerror(error.errno or 0)}): "
            "pass another --port, or 0 for a free one"
        ) from None
