"""The HTTP side of the dashboard: its paths, who may use them, and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from shardline.errors import ShardlineError, optional_import

with optional_import("the dashboard"):
    from aiohttp import web

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping

    from shardline.dashboard.latest import LatestSnapshot

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LOCAL_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_PAGE: Final = Path(__file__).with_name("page")
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
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
_WRONG_TOKEN: Final = "wrong token: use the one that the dashboard was started with"  # noqa: S105


class _Target(msgspec.Struct):
    """The body of an action."""

    shard_id: str


class PageApplication:
    """The paths of the page. All methods run in the event loop of the server.

    Without a token nothing can be changed, and no payload of a record is given out.
    """

    def __init__(
        self,
        latest: LatestSnapshot,
        *,
        token: str | None,
        actions: Mapping[str, Callable[[str], str]],
        pulse_seconds: float,
    ) -> None:
        self._latest = latest
        self._token = token
        self._actions = dict(actions) if token else {}
        self._pulse_seconds = pulse_seconds
        self._listeners: set[asyncio.Event] = set()
        self._stopped = False

    async def start(self, listener: socket.socket) -> None:
        """Begin to serve on a socket that listens."""
        self._runner = web.AppRunner(self._routes(), access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()

    def announce(self) -> None:
        """Send the latest snapshot to all open event streams."""
        for listener in self._listeners:
            listener.set()

    async def stop(self) -> None:
        """End all open event streams, and close the port."""
        self._stopped = True
        self.announce()
        await self._runner.cleanup()

    def _routes(self) -> web.Application:
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
        return web.json_response(
            {
                "actions": sorted(self._actions),
                "token": self._token is not None,
                "pulse_seconds": self._pulse_seconds,
            }
        )

    async def _answer_snapshot(self, request: web.Request) -> web.StreamResponse:
        asked = "Authorization" in request.headers
        if asked and not self._has_token(request):
            return _message(401, _WRONG_TOKEN)
        text = self._latest.text(with_payloads=asked)
        return web.Response(text=text, content_type="application/json")

    async def _answer_events(self, request: web.Request) -> web.StreamResponse:
        """Send a snapshot at once, whenever there is a new one, and at least once a pulse.

        A pulse repeats the snapshot, so that the page learns that it has become stale.
        """
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        changed = asyncio.Event()
        self._listeners.add(changed)
        try:
            await response.prepare(request)
            while not self._stopped:
                changed.clear()
                text = self._latest.text(with_payloads=False)
                await response.write(f"event: snapshot\ndata: {text}\n\n".encode())
                try:
                    await asyncio.wait_for(changed.wait(), self._pulse_seconds)
                except TimeoutError:
                    continue
        except ConnectionError:  # the browser has gone
            pass
        finally:
            self._listeners.discard(changed)
        return response

    async def _answer_action(self, request: web.Request) -> web.StreamResponse:
        if self._token is None:
            return _message(403, "this page is read-only: start the dashboard with --token")
        if not self._has_token(request):
            return _message(401, _WRONG_TOKEN)
        action = self._actions.get(request.match_info["action"])
        if action is None:
            return _message(404, "there is no such action")
        try:
            body = msgspec.json.decode(await request.read(), type=_Target)
        except (msgspec.MsgspecError, ValueError, RecursionError, web.RequestPayloadError):
            return _message(400, 'send JSON such as {"shard_id": "shardId-000000000000"}')
        try:
            return _message(200, await asyncio.to_thread(action, body.shard_id))
        except ShardlineError as error:
            return _message(409, str(error))

    def _has_token(self, request: web.Request) -> bool:
        if self._token is None:
            return False
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        # Header bytes that are not UTF-8 arrive as surrogates, which a plain encode refuses.
        presented = given.encode("utf-8", "surrogateescape")
        return scheme == "Bearer" and hmac.compare_digest(presented, self._token.encode())


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests that name another host, or that come from a page of another site.

    A site whose name suddenly resolves to 127.0.0.1 still sends its own name in `Host`, and a
    form on another site sends that site's `Origin`.
    """
    if "@" in request.host or _host_of(f"//{request.host}") not in _LOCAL_NAMES:
        return _message(421, "open the page as 127.0.0.1 or localhost")
    origin = request.headers.get("Origin")
    if origin is not None and _netloc_of(origin) != request.host:
        return _message(403, "requests from other sites are refused")
    try:
        response = await handler(request)
    except web.HTTPException as refusal:
        response = _message(refusal.status, refusal.reason)
    if not response.prepared:
        response.headers.update(_HEADERS)
    return response


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _netloc_of(url: str) -> str | None:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def _serve_file(name: str) -> Handler:
    path = _PAGE / name
    content_type = _TYPES[path.suffix]

    async def answer(_request: web.Request) -> web.StreamResponse:
        body = await asyncio.to_thread(path.read_text, encoding="utf-8")
        return web.Response(text=body, content_type=content_type)

    return answer


def _message(status: int, text: str) -> web.Response:
    return web.json_response({"message": text}, status=status, headers=_HEADERS)
