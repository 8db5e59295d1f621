"""The password of a lease table: in no plan, page, log or list of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shardline.cli.demo.recorder import LOG_VARIABLE
from tests.integration.test_ends import processes_of
from tests.integration.worker_runs import RECORDER, wait_until
from tests.servers.postgres import postgresql

if TYPE_CHECKING:
    from shardline.local.service import Service

PASSWORD = "hush-hush"  # noqa: S105


def test_a_password_of_the_lease_table_is_shown_nowhere(service: Service, tmp_path: Path) -> None:
    """Spark's log of events has all that its pages show: settings, plans, jobs, stages."""
    events, output = tmp_path / "events", tmp_path / "output"
    events.mkdir()
    settings = tmp_path / "spark-defaults.conf"
    settings.write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {events.as_uri()}\n"
        "spark.eventLog.compress false\n"
    )
    service.create_stream("orders", 2)
    with postgresql() as database, output.open("wb") as written:
        address = database.dsn.replace("shardline@", f"shardline:{PASSWORD}@")
        run = subprocess.Popen(
            [
                *(sys.executable, "-m", "shardline", "--debug", "run", RECORDER),
                *("--stream", "kinesis://orders", "--endpoint-url", service.endpoint_url),
                *("--app", "billing", "--lease-table", address, "--status-seconds", "1"),
            ],
            cwd=tmp_path,
            stdout=written,
            stderr=subprocess.STDOUT,
            env=os.environ
            | {"SPARK_CONF_DIR": str(tmp_path), LOG_VARIABLE: str(tmp_path / "log.jsonl")},
            start_new_session=True,
        )
        try:
            wait_until(lambda: "2 shards" in output.read_text(), "it has its leases")
            commands = [
                Path(f"/proc/{each}/cmdline").read_bytes() for each in processes_of(run.pid)
            ]
            run.send_signal(signal.SIGTERM)
            assert run.wait(60) == 0, output.read_text()
        finally:
            run.kill()
            run.wait()
    logs = [path.read_bytes() for path in events.rglob("*") if path.is_file()]
    assert any(b"SparkListenerJobStart" in log for log in logs)
    assert any(b"postgresql" in command for command in commands)
    for text in (*commands, *logs, output.read_bytes()):
        assert PASSWORD.encode() not in text
