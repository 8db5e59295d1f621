"""What is imported before Spark's workers are forked."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from shardline.spark.worker_daemon import TASKS
from shardline.spark.worker_python import worker_environment

_NEEDED = (
    "shardline.consumer.job",
    "shardline.consumer.keeper",
    "shardline.leases.sql",
    "botocore.session",
)
_REPORT = """
import json, os, sys
from shardline.spark.worker_daemon import import_ahead
import_ahead(sys.argv[1])
names = sys.argv[2].split()
threads = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 1
print(json.dumps({"imported": [n for n in names if n in sys.modules], "threads": threads}))
"""


@pytest.mark.parametrize(
    ("kind", "imported"),
    [
        (TASKS, list(_NEEDED)),
        ("pyspark.sql.worker.plan_data_source_read", ["botocore.session"]),
    ],
)
def test_workers_are_forked_with_what_they_need_and_from_a_single_thread(
    kind: str, imported: list[str]
) -> None:
    command = [sys.executable, "-c", _REPORT, kind, " ".join([*_NEEDED, "pyarrow"])]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == {"imported": imported, "threads": 1}


def test_spark_starts_our_daemon_where_it_asks_for_its_own() -> None:
    python = worker_environment("local[2]", {})
    command = [python["PYSPARK_PYTHON"], "-m", "pyspark.daemon", "pyspark.worker"]
    shown = os.environ | python | {"SHARDLINE_PYTHON": "/bin/echo"}
    ran = subprocess.run(command, env=shown, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["-m", "shardline.spark.worker_daemon", "pyspark.worker"]
