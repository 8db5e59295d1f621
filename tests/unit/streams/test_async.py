"""A stream in asynchronous code: records, waiting, cancelling, closing."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from shardline.errors import ServiceError
from tests.unit.streams.world import World, names

if TYPE_CHECKING:
    from shardline.services.port import Page
    from shardline.streams.stream import Stream


def name_of(record: Any) -> str:
    return str(record.keys["id"]["S"])


def test_async_for_gives_records_waits_for_more_and_ends_when_closed() -> None:
    world = World()
    world.put("a")
    world.put("b")
    stream = world.stream("trim_horizon", poll_seconds=0.01)

    async def read() -> list[str]:
        found = []
        async with stream:
            async for record in stream:
                found.append(name_of(record))
                if len(found) == 2:
                    world.put("c")
                    world.clock.advance(1)
                if len(found) == 3:
                    stream.close()
        return found

    assert asyncio.run(asyncio.wait_for(read(), 30)) == ["a", "b", "c"]


def test_reads_leave_the_event_loop_free() -> None:
    world = World()
    world.put("a")
    reading, release = threading.Event(), threading.Event()

    def change(_shard: str, page: Page) -> Page:
        reading.set()
        assert release.wait(30)
        return page

    stream = world.stream("trim_horizon")
    world.service.change_page = change

    async def read() -> str:
        async def let_go() -> None:
            while not reading.is_set():
                await asyncio.sleep(0.001)
            release.set()  # reached only while the read is under way

        record, _ = await asyncio.gather(anext(stream), let_go())
        return name_of(record)

    assert asyncio.run(asyncio.wait_for(read(), 30)) == "a"


def test_a_cancelled_read_ends_first_and_loses_nothing() -> None:
    world = World()
    world.put("a")
    world.put("b")
    reading, release = threading.Event(), threading.Event()

    def change(_shard: str, page: Page) -> Page:
        reading.set()
        assert release.wait(30)
        return page

    stream = world.stream("trim_horizon")
    world.service.change_page = change

    async def cancel() -> bool:
        task = asyncio.create_task(take_one(stream))
        while not reading.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0.01)
        ended_early = task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended_early

    assert asyncio.run(asyncio.wait_for(cancel(), 30)) is False
    assert names(stream) == ["a", "b"]


def test_an_error_of_the_service_comes_out() -> None:
    world = World()
    stream = world.stream("trim_horizon")

    def change(_shard: str, _page: Page) -> Page:
        raise ServiceError("broken")

    world.service.change_page = change
    with pytest.raises(ServiceError, match="broken"):
        asyncio.run(asyncio.wait_for(take_one(stream), 30))


async def take_one(stream: Stream[Any]) -> Any:
    return await anext(stream)
