"""The Python of Spark's workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from shardline.spark.worker_python import worker_environment

ZIPPED = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"


def test_a_worker_imports_the_pyspark_that_has_bytecode_and_keeps_the_rest_of_its_path() -> None:
    assert ZIPPED.exists(), "Spark puts this one in front of the path"
    python = worker_environment("local[2]", {})
    environment = os.environ | python | {"PYTHONPATH": f"{ZIPPED}:/some where:/and here"}
    command = [
        python["PYSPARK_PYTHON"],
        "-c",
        "import pyspark, sys; print(pyspark.__file__, *sys.path, sep='\\n')",
    ]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    imported, _, *path = ran.stdout.splitlines()
    assert imported == pyspark.__file__
    assert path[:2] == ["/some where", "/and here"]


@pytest.mark.parametrize(
    ("master", "given", "python"),
    [
        ("local[2]", {"PYSPARK_PYTHON": "/usr/bin/python3"}, "/usr/bin/python3"),
        ("local[2]", {"PYSPARK_DRIVER_PYTHON": "/usr/bin/python3"}, sys.executable),
        ("local[2]", {"SPARK_HOME": "/opt/spark"}, sys.executable),
        ("spark://host:7077", {}, sys.executable),
    ],
)
def test_another_python_or_spark_is_left_as_the_user_chose_it(
    master: str, given: dict[str, str], python: str
) -> None:
    assert worker_environment(master, given) == {"PYSPARK_PYTHON": python}


def test_a_session_on_a_cluster_after_a_local_one_gets_the_interpreter_itself() -> None:
    local = worker_environment("local[2]", {})
    assert local["PYSPARK_PYTHON"] != sys.executable
    assert worker_environment("local[2]", local) == local
    assert worker_environment("spark://host:7077", local) == {"PYSPARK_PYTHON": sys.executable}
