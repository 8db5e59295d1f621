"""The samples of docs/migrating.md run as they stand, on both servers with tables."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shardline.local import Service
from tests import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"
RUNS = re.compile(r"^<!-- runs -->\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(params=["shardline local", "dynamodb_local"])
def endpoint_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of its own, where nobody else has a table of that name."""
    if request.param == "shardline local":
        with Service(strict=True) as service:
            yield service.endpoint_url
    else:
        request.getfixturevalue(request.param)  # Skips where there is none.
        with servers.dynamodb_local() as server:
            yield server.endpoint_url


@pytest.mark.req("C-01", "C-02", "C-03", "C-09", "C-10", "C-11")
def test_the_samples_of_change_streams_run_and_print_what_they_say(
    endpoint_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint_url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", endpoint_url)
    names: dict[str, Any] = {"__name__": "a page"}
    blocks = RUNS.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    user, stream = names["user"], names["stream"]
    printed = capsys.readouterr().out.strip()
    shown = re.fullmatch(r"new user (.*) created (.*)", printed)
    assert shown is not None, printed
    assert shown[1] == str(user)
    assert datetime.fromisoformat(shown[2]).tzinfo is not None
    [record] = names["processed"]  # after the move to the horizon the first record comes again
    assert (record["new"], record["old"]) == (user, None)
    assert record["meta"]["event"]["type"] == "insert"
    stream.close()
