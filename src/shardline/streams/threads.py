"""Blocking calls from asynchronous code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def in_thread(call: Callable[[], None]) -> None:
    """Make a call in a thread. If the task is cancelled, the call ends first.

    So a cancelled task leaves nothing behind that still uses the stream.
    """
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
