"""The server of the dashboard: a port on loopback, and two threads of this process."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from shardline.dashboard.application import PageApplication
from shardline.dashboard.latest import LatestSnapshot
from shardline.services.listening import listen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from shardline.observation.watch import Watch

logger = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_PULSE_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 5.0
_STALE_SECONDS: Final = 10.0
"""Added to the interval: one observation of a slow service takes up to its patience, 5 s."""


class PageServer:
    """Serves the page of one watch, until `stop`.

    Read-only unless a token is given; then `actions`, each a function of a shard id that returns
    a description of what it did, may be called with that token.
    """

    def __init__(
        self,
        watch: Watch,
        *,
        port: int = 0,
        token: str | None = None,
        actions: Mapping[str, Callable[[str], str]] | None = None,
        interval_seconds: float = 1.0,
        stale_seconds: float = _STALE_SECONDS,
        pulse_seconds: float = _PULSE_SECONDS,
    ) -> None:
        self._watch = watch
        self._interval_seconds = interval_seconds
        # The first snapshot is taken here, so that a wrong address is an error of the caller.
        self._latest = LatestSnapshot(
            watch.snapshot(), stale_seconds=interval_seconds + stale_seconds
        )
        self._page = PageApplication(
            self._latest, token=token, actions=actions or {}, pulse_seconds=pulse_seconds
        )
        self._stopping = threading.Event()
        self._socket = listen(LOOPBACK, port, "pass another --port, or 0 for a free one")
        self.port: Final = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="shardline-page", daemon=True)
        self._thread.start()
        self._started.wait()
        # Not a thread of a pool: Python waits for those at exit, and an observation of a service
        # that does not answer takes long.
        self._observer = threading.Thread(
            target=self._observe, name="shardline-observer", daemon=True
        )
        self._observer.start()

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{LOOPBACK}:{self.port}/"

    def stop(self) -> None:
        """Stop the threads and close the port. Idempotent."""
        self._stopping.set()
        self._observer.join(_STOP_SECONDS)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _serve(self) -> None:
        """Run the event loop; the target of the page's thread."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._page.start(self._socket))
            self._started.set()
            self._loop.run_forever()
            self._loop.run_until_complete(self._page.stop())
            self._loop.run_until_complete(_cancel(asyncio.all_tasks(self._loop)))
        finally:
            self._started.set()
            self._loop.close()

    def _observe(self) -> None:
        """Take a snapshot every interval; the target of the observer's thread."""
        while not self._stopping.wait(self._interval_seconds):
            try:
                self._latest.put(self._watch.snapshot())
            except Exception as error:
                # A watch reports failures of the service in the snapshot's notice. Any other
                # exception must not end the page either: the next observation may succeed.
                logger.exception("no snapshot; trying again in %s s", self._interval_seconds)
                self._latest.fail(f"no snapshot could be taken ({type(error).__name__})")
            with suppress(RuntimeError):  # the loop was closed during the observation
                self._loop.call_soon_threadsafe(self._page.announce)


async def _cancel(tasks: Iterable[asyncio.Task[object]]) -> None:
    others = [task for task in tasks if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
