"""The page's server over HTTP: what it gives, to whom, and what it refuses."""

from __future__ import annotations

import gc
import http.client
import json
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

import pytest

from shardline.dashboard.server import PageServer
from shardline.errors import ConfigurationError
from shardline.observation.snapshot import DeadLetter
from tests.unit.observation.situations import Situation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.observation.snapshot import Snapshot

TOKEN = "open sesame"  # noqa: S105


@pytest.fixture
def situation() -> Situation:
    return Situation(2)


@pytest.fixture
def page(situation: Situation) -> Iterator[PageServer]:
    def release(shard_id: str) -> str:
        if shard_id not in situation.shard_ids():
            raise ConfigurationError(f"nobody holds {shard_id}")
        situation.release(shard_id)
        return f"released {shard_id}"

    with PageServer(
        situation, token=TOKEN, actions={"release": release}, interval_seconds=0.02
    ) as server:
        yield server


def ask(
    page: PageServer, method: str, path: str, body: str = "", **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/icon.svg", "/snapshot", "/about"])
def test_everything_is_served_under_a_policy_that_runs_only_our_own_code(
    page: PageServer, path: str
) -> None:
    status, headers, body = ask(page, "GET", path)
    assert status == 200
    assert body
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"


def test_the_page_loads_nothing_from_elsewhere_and_has_no_script_inside(page: PageServer) -> None:
    _, _, body = ask(page, "GET", "/")
    assert "http" not in body
    assert "style=" not in body
    assert body.count("<script") == body.count('<script type="module" src="/')


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "[oops",
        "evil.example@127.0.0.1",
    ],
)
def test_another_host_name_is_refused_so_that_dns_rebinding_reads_nothing(
    page: PageServer, host: str
) -> None:
    status, _, body = ask(page, "GET", "/snapshot", Host=host)
    assert status in (400, 421)
    assert "shards" not in body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9999", "[::1]:8765"])
def test_names_of_this_machine_are_welcome_also_through_a_tunnel(
    page: PageServer, host: str
) -> None:
    assert ask(page, "GET", "/snapshot", Host=host)[0] == 200


def test_the_snapshot_is_json_and_follows_what_happens(
    page: PageServer, situation: Situation
) -> None:
    situation.split(situation.shard_ids()[0])
    deadline = time.monotonic() + 10
    count = 0
    while count != 4 and time.monotonic() < deadline:
        count = len(json.loads(ask(page, "GET", "/snapshot")[2])["shards"])
    assert count == 4


def test_events_push_a_snapshot_at_once_and_after_every_look(
    page: PageServer, situation: Situation
) -> None:
    with socket.create_connection(("127.0.0.1", page.port), timeout=10) as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stream = connection.makefile("rb")
        assert _next_shard_count(stream) == 2
        situation.split(situation.shard_ids()[0])
        while _next_shard_count(stream) != 4:
            pass


def test_a_browser_that_leaves_at_once_is_no_error_of_the_page(
    page: PageServer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", page.port)) as leaving:
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            leaving.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert ask(page, "GET", "/about")[0] == 200
    time.sleep(0.1)
    assert "Error handling request" not in caplog.text


def test_stopping_ends_open_streams_of_events_without_a_word(
    situation: Situation, caplog: pytest.LogCaptureFixture
) -> None:
    page = PageServer(situation)
    with socket.create_connection(("127.0.0.1", page.port), timeout=10) as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stream = connection.makefile("rb")
        assert _next_shard_count(stream) == 2
        page.stop()
        assert b"data: " not in stream.read()
    gc.collect()
    assert not page._thread.is_alive()
    assert caplog.records == []


def test_no_look_goes_on_after_stopping(situation: Situation) -> None:
    looking, may_end = threading.Event(), threading.Event()
    looks: list[str] = []

    class Slow:
        def snapshot(self) -> Snapshot:
            if threading.current_thread() is not threading.main_thread():
                looking.set()
                may_end.wait(30)
                looks.append("done")
            return situation.snapshot()

    page = PageServer(Slow(), interval_seconds=0.001)
    assert looking.wait(30)
    threading.Timer(0.2, may_end.set).start()
    page.stop()
    assert looks
    assert not any(t.name == "shardline-observer" for t in threading.enumerate())


def test_an_action_needs_the_token(page: PageServer, situation: Situation) -> None:
    shard = situation.shard_ids()[0]
    situation.take(shard, "w1/a")
    body = json.dumps({"shard_id": shard})
    assert ask(page, "POST", "/actions/release", body)[0] == 401
    assert ask(page, "POST", "/actions/release", body, Authorization="Bearer wrong")[0] == 401
    assert situation.snapshot().shards[0].owner == "w1/a"
    status, _, said = ask(page, "POST", "/actions/release", body, Authorization=f"Bearer {TOKEN}")
    assert (status, json.loads(said)) == (200, {"message": f"released {shard}"})
    assert situation.snapshot().shards[0].owner is None


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/actions/release", "no JSON", 400),
        ("/actions/release", "[]", 400),
        ("/actions/release", "[" * 30_000, 400),
        ("/actions/release", '{"shard_id": {"a": 1}}', 400),
        ("/actions/release", '{"shard_id": "unknown"}', 409),
        ("/actions/destroy", '{"shard_id": "x"}', 404),
    ],
)
def test_a_wrong_action_is_refused_in_one_line(
    page: PageServer, path: str, body: str, status: int
) -> None:
    answer = ask(page, "POST", path, body, Authorization=f"Bearer {TOKEN}")
    assert answer[0] == status
    assert "\n" not in json.loads(answer[2])["message"]


@pytest.mark.parametrize(
    "header", [("Content-Type", "text/plain; charset=none"), ("Content-Encoding", "gzip")]
)
def test_an_action_that_cannot_be_read_is_refused_in_one_line(
    page: PageServer, header: tuple[str, str]
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", header[0]: header[1]}
    status, _, said = ask(page, "POST", "/actions/release", "no archive", **headers)
    assert (status, "\n" in json.loads(said)["message"]) == (400, False)


def test_another_site_cannot_act_even_with_the_token(page: PageServer) -> None:
    answer = ask(
        page, "POST", "/actions/release", "{}",
        Authorization=f"Bearer {TOKEN}", Origin="http://evil.example",
    )  # fmt: skip
    assert answer[0] == 403


def test_without_a_token_the_page_is_read_only(situation: Situation) -> None:
    def never(_shard_id: str) -> str:
        raise AssertionError("acted")

    with PageServer(situation, actions={"release": never}) as page:
        status, _, said = ask(page, "POST", "/actions/release", '{"shard_id": "x"}')
        assert status == 403
        assert "--token" in json.loads(said)["message"]
        assert json.loads(ask(page, "GET", "/about")[2])["actions"] == []


@pytest.mark.parametrize(
    "token", ["", "wrong", "\xff\xfe", "ключ".encode().decode("latin-1"), "x" * 5000]
)
def test_a_wrong_token_is_401_whatever_its_bytes(page: PageServer, token: str) -> None:
    for method, path in (("GET", "/snapshot"), ("POST", "/actions/release")):
        assert ask(page, method, path, "{}", Authorization=f"Bearer {token}")[0] == 401
    assert ask(page, "GET", "/snapshot", Authorization=f"Basic {TOKEN}")[0] == 401


def test_payloads_are_given_out_only_with_the_token(page: PageServer, situation: Situation) -> None:
    situation.dead_letters.append(DeadLetter(1.0, "s", "key", "7", "bad", "SECRET"))
    _wait_for_letter(page)
    assert "SECRET" not in ask(page, "GET", "/snapshot")[2]
    with socket.create_connection(("127.0.0.1", page.port), timeout=10) as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        line = next(line for line in connection.makefile("rb") if line.startswith(b"data: "))
    (letter,) = json.loads(line[6:])["dead_letters"]
    assert (letter["reason"], letter["payload"]) == ("bad", "")
    answer = json.loads(ask(page, "GET", "/snapshot", Authorization=f"Bearer {TOKEN}")[2])
    assert answer["dead_letters"][0]["payload"] == "SECRET"


def test_without_a_token_payloads_are_never_given_out(situation: Situation) -> None:
    situation.dead_letters.append(DeadLetter(1.0, "s", "key", "7", "bad", "SECRET"))
    with PageServer(situation) as page:
        assert "SECRET" not in ask(page, "GET", "/snapshot")[2]
        assert ask(page, "GET", "/snapshot", Authorization="Bearer None")[0] == 401


def test_an_observation_that_hangs_makes_the_page_stale(situation: Situation) -> None:
    hanging, may_end = threading.Event(), threading.Event()

    class Hanging:
        def snapshot(self) -> Snapshot:
            if threading.current_thread() is not threading.main_thread():
                hanging.set()
                may_end.wait(30)
            return situation.snapshot()

    with PageServer(
        Hanging(), interval_seconds=0.001, stale_seconds=0.001, pulse_seconds=0.01
    ) as page:
        assert hanging.wait(30)
        with socket.create_connection(("127.0.0.1", page.port), timeout=10) as connection:
            connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for line in connection.makefile("rb"):
                if line.startswith(b"data: ") and json.loads(line[6:])["notice"]:
                    break
            else:
                pytest.fail("the stream of events ended")
        may_end.set()


def test_an_observation_that_raises_makes_the_page_stale(situation: Situation) -> None:
    class Raising:
        def snapshot(self) -> Snapshot:
            if threading.current_thread() is not threading.main_thread():
                raise ZeroDivisionError
            return situation.snapshot()

    with PageServer(Raising(), interval_seconds=0.001) as page:
        deadline = time.monotonic() + 10
        notice = ""
        while not notice and time.monotonic() < deadline:
            notice = json.loads(ask(page, "GET", "/snapshot")[2])["notice"]
    assert notice == "no snapshot could be taken (ZeroDivisionError)"


def test_unknown_paths_and_files_outside_the_page_are_not_served(page: PageServer) -> None:
    for path in ("/nothing", "/../server.py", "/%2e%2e/server.py", "/server.py"):
        assert ask(page, "GET", path)[0] == 404


def test_a_port_that_is_taken_is_an_error_in_one_line(
    page: PageServer, situation: Situation
) -> None:
    with pytest.raises(ConfigurationError, match=f"port {page.port} of 127.0.0.1 is not available"):
        PageServer(situation, port=page.port)


def _wait_for_letter(page: PageServer) -> None:
    deadline = time.monotonic() + 10
    while not json.loads(ask(page, "GET", "/snapshot")[2])["dead_letters"]:
        assert time.monotonic() < deadline


def _next_shard_count(stream: object) -> int:
    for line in stream:  # type: ignore[attr-defined]
        if line.startswith(b"data: "):
            return len(json.loads(line[6:])["shards"])
    raise AssertionError("the stream of events ended")
