"""The Python that a page marks as runnable runs, on the embedded service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shardline.local import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
RUNS = re.compile(r"^<!-- runs -->\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Find `kinesis://orders` with a few records, as the pages take for granted."""
    with Service(strict=True, status_delay_seconds=0) as service:
        service.create_stream("orders", 2)
        kinesis = service.client("kinesis")
        for key in ("ann", "bob", "eve", "ann"):
            kinesis.put_record(StreamName="orders", PartitionKey=key, Data=b"an order")
        kinesis.put_record(StreamName="orders", PartitionKey="ann", Data=b"the last one")
        monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", service.endpoint_url)
        yield


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("page", ["streams.md", "testing.md"])
def test_what_is_marked_as_runnable_runs(page: str) -> None:
    blocks = RUNS.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks, "no block is marked"
    names: dict[str, Any] = {"__name__": "a page"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # noqa: S102 - our own pages
    if (stream := names.get("stream")) is not None:
        stream.close()
