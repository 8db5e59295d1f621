"""The consumer of the README, run by its own command: unchanged on every engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Iterable

README = Path(__file__).parents[1] / "README.md"
PATIENCE_SECONDS = 150.0


def run_readme_consumer(
    folder: Path,
    client: Any,
    endpoint_url: str,
    *more: str,
    printed_in: Iterable[str] = ("output.log",),
) -> None:
    """Run the README's lines until a record of each shard was printed; then stop it.

    `printed_in` are patterns of the files, within the folder, in which that shows.
    """
    text = README.read_text(encoding="utf-8")
    (command,) = re.findall(r"^shardline (run billing:Billing .*)$", text, re.MULTILINE)
    (folder / "billing.py").write_text(readme_consumer())
    client.create_stream(StreamName="orders", ShardCount=2)
    wait_until_active(client, "orders")
    typed = command.replace("http://127.0.0.1:4567", endpoint_url).split()
    output = folder / "output.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "shardline", *typed, *more],
            cwd=folder,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONUNBUFFERED": "1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _put_until_printed(process, folder, client, printed_in)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, output.read_text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert "every lease handed back, nothing to repeat" in output.read_text()


def readme_consumer() -> str:
    """Return the README's module with its consumer."""
    text = README.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n# billing\.py\n(.*?)```", text, re.DOTALL)
    return str(code)


def _put_until_printed(
    process: subprocess.Popen[bytes], folder: Path, client: Any, printed_in: Iterable[str]
) -> None:
    expected = set()
    for n in range(20):
        order = {"order": n}
        answer = client.put_record(
            StreamName="orders", PartitionKey=f"key-{n}", Data=json.dumps(order).encode()
        )
        expected.add(f"{answer['ShardId']} key-{n} {order}")
    assert len({line.split()[0] for line in expected}) == 2, "records for both shards"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        files = [path for pattern in printed_in for path in folder.glob(pattern)]
        printed = "".join(path.read_text(errors="replace") for path in files)
        missing = [line for line in expected if line not in printed]  # threads may share a line
        if not missing:
            return
        assert process.poll() is None, f"it ended: {printed[-2000:]}"
        assert time.monotonic() < deadline, f"not printed: {sorted(missing)}: {printed[-2000:]}"
        time.sleep(0.1)
