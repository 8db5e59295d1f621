"""Two workers behind relays: whatever a connection to the stream meets, the promises hold.

Those to the lease table are in a file of their own, so that another process runs them.
"""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.integration.relay_cells import WorkerPair, worker_pair
from tests.servers.relay import FATES, relay_to

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[WorkerPair]:
    folder = tmp_path_factory.mktemp("relays")
    with worker_pair(folder, "postgresql", request.getfixturevalue) as made:
        yield made


@pytest.mark.req("K-11", "O-01")
@pytest.mark.case("W-05", "W-06", "X-28")
@pytest.mark.parametrize("fate", FATES)
def test_workers_whose_connections_meet_a_fate_keep_the_promises_recover_and_stop(
    pair: WorkerPair, fate: str
) -> None:
    assert pair.strike("stream", fate).verdict.kept


SEEN = {
    "": (b"an answer", ""),
    "drop": (b"", ""),
    "cut body": (b"an a", ""),
    "reset": (b"", "ConnectionResetError"),
    "silent": (b"", "TimeoutError"),
    "one-way": (b"", "TimeoutError"),
    "trickle": (b"a", ""),
}


@pytest.mark.parametrize("fate", SEEN)
def test_a_relay_does_what_its_fate_says(fate: str) -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        relay_to(server.getsockname()[1]) as relay,
        relay.struck(fate),
        closing(socket.create_connection(("127.0.0.1", relay.port), timeout=30)) as client,
        closing(server.accept()[0]) as accepted,
    ):
        client.sendall(b"a request")
        if fate not in ("drop", "reset", "silent"):
            assert accepted.recv(99) == b"a request"
            accepted.sendall(b"an answer")
        if SEEN[fate][1] == "TimeoutError":
            client.settimeout(0.5)
        assert _received(client) == SEEN[fate]


def _received(client: socket.socket) -> tuple[bytes, str]:
    """Return the first bytes that come, and the error that comes instead."""
    try:
        return client.recv(99), ""
    except OSError as error:
        return b"", type(error).__name__
