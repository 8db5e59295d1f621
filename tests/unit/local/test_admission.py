from __future__ import annotations

import pytest

from shardline.local.admission import Admission


@pytest.mark.parametrize(
    "host", ["127.0.0.1:4567", "localhost:4567", "LOCALHOST", "[::1]:4567", "orders.localhost:1"]
)
def test_loopback_is_admitted(host: str) -> None:
    assert Admission("127.0.0.1").refusal(host, None) is None


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example:4567", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.7",
     "[", "evil.example@127.0.0.1x", "evil.example@127.0.0.1"],
)  # fmt: skip
def test_another_host_is_refused(host: str | None) -> None:
    assert "is not allowed" in (Admission("127.0.0.1").refusal(host, None) or "")


def test_the_bound_host_and_allowed_names_are_admitted() -> None:
    admission = Admission("10.0.0.7", ["kinesis"])
    assert admission.refusal("10.0.0.7:4567", None) is None
    assert admission.refusal("Kinesis:4567", None) is None
    assert admission.refusal("10.0.0.8:4567", None) is not None


def test_bound_to_every_address_any_address_but_no_name_is_admitted() -> None:
    admission = Admission("0.0.0.0")  # noqa: S104
    assert admission.refusal("192.168.1.5:4567", None) is None
    assert admission.refusal("evil.example:4567", None) is not None


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"])
def test_pages_of_this_machine_are_admitted(origin: str) -> None:
    assert Admission("127.0.0.1").refusal("localhost", origin) is None


@pytest.mark.parametrize(
    "origin",
    ["null", "", "https://evil.example", "http://localhost.evil.example", "file://", "http://[",
     "chrome-extension://localhost"],
)  # fmt: skip
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    assert "Origin" in (Admission("127.0.0.1").refusal("localhost", origin) or "")
