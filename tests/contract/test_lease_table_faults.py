"""A lease table that throttles, cuts answers or goes silent costs time, never a wrong belief."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.leasing.rows import LeaseRow
from shardline.leases.dynamodb import DynamoLeaseTable
from shardline.leases.port import TableUnavailable
from shardline.leases.sql import SqlLeaseTable
from shardline.services.access import Access

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Database, Endpoint

CREATED = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)


@pytest.mark.case("X-28")
def test_a_postgresql_connection_that_goes_silent_is_given_up(postgresql: Database) -> None:
    app = f"app-{uuid.uuid4().hex[:8]}"
    with _proxy(postgresql.dsn) as (dsn, silent):
        table = SqlLeaseTable(dsn, wait_seconds=1)
        table.prepare()
        assert table.read_header(app, "orders") is None
        silent.set()
        began = time.monotonic()
        with pytest.raises(TableUnavailable, match=r"did not answer for 1 s|timeout"):
            table.read_header(app, "orders")
        with pytest.raises(TableUnavailable):
            table.swap_row(LeaseRow(app, "orders", "s0", CREATED), None)
        assert time.monotonic() - began < 30, "two calls, each with deadlines of a few seconds"
        silent.clear()
        assert table.read_header(app, "orders") is None, "and it goes on by itself"
        table.close()


@pytest.mark.case("X-27")
@pytest.mark.parametrize("body", [b'{"Item":{"app_na', b"", b"<html>", b'{"Item":"\xff"}', b"[]"])
def test_an_answer_that_is_not_whole_is_not_taken_for_no_row(body: bytes) -> None:
    with _server(body) as url:
        table = DynamoLeaseTable("leases", Access(endpoint_url=url), attempts=1)
        with pytest.raises(TableUnavailable):
            table.read_header("app", "orders")
        with pytest.raises(TableUnavailable):
            table.read_rows("app", "orders", ["s0"])
        with pytest.raises(TableUnavailable):
            table.scan_rows("app", "orders", None, 10)
        table.close()


@pytest.mark.case("X-31")
def test_unprocessed_keys_are_asked_for_again_after_pauses(dynamodb_local: Endpoint) -> None:
    pauses: list[float] = []
    table = DynamoLeaseTable(
        f"leases-{uuid.uuid4().hex[:8]}",
        Access(endpoint_url=dynamodb_local.endpoint_url),
        sleep=pauses.append,
    )
    table.prepare()
    rows = [LeaseRow("app", "orders", f"s{i}", CREATED) for i in range(4)]
    for row in rows:
        table.swap_row(row, None)
    answer = table._client.batch_get_item

    def one_at_a_time(RequestItems: dict[str, Any]) -> Any:  # noqa: N803 - as boto3 names it
        ((name, asked),) = RequestItems.items()
        keys = asked["Keys"]
        given = answer(RequestItems={name: {**asked, "Keys": keys[:1]}})
        return {**given, "UnprocessedKeys": {name: {**asked, "Keys": keys[1:]}} if keys[1:] else {}}

    table._client.batch_get_item = one_at_a_time
    found = table.read_rows("app", "orders", [row.shard_id for row in rows])
    assert set(found.values()) == set(rows)
    assert len(pauses) == 3

    def none_at_all(RequestItems: dict[str, Any]) -> Any:  # noqa: N803
        ((name, _),) = RequestItems.items()
        return {"Responses": {name: []}, "UnprocessedKeys": RequestItems}

    table._client.batch_get_item = none_at_all
    with pytest.raises(TableUnavailable, match="is throttled"):
        table.read_rows("app", "orders", ["s0"])
    table.close()


@contextmanager
def _proxy(dsn: str) -> Iterator[tuple[str, threading.Event]]:
    """Pass bytes on to a server; while the event is set, swallow them."""
    head, _, rest = dsn.partition("127.0.0.1:")
    port, _, database = rest.partition("/")
    silent = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        while True:
            try:
                data = source.recv(65536)
                if not data:
                    break
                if not silent.is_set():
                    target.sendall(data)
            except OSError:
                break
        target.close()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", int(port)))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"{head}127.0.0.1:{listener.getsockname()[1]}/{database}", silent
    finally:
        listener.close()


@contextmanager
def _server(body: bytes) -> Iterator[str]:
    """Answer every request with status 200 and this body."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
