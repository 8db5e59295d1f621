"""The Python that Spark starts its workers with on this machine.

Spark puts a zipped copy of pyspark in front of their path. It holds no bytecode, and Python keeps
none for a zip, so that each worker that is started compiles it again: more than half of the time
until a query asks for its first batch. The script beside this file takes the zip off the path; the
worker then imports the pyspark that this process has imported. The script also has workers forked
from `worker_daemon.py` instead of Spark's own daemon.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SCRIPT: Final = Path(__file__).with_suffix(".sh")


def worker_environment(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables from which Spark learns with what Python to start its workers.

    A Python that the user chose is kept, and so is that of a cluster, whose machines may not have
    this one.
    """
    chosen = environment.get("PYSPARK_PYTHON", sys.executable)
    if chosen not in (sys.executable, str(_SCRIPT)) or "PYSPARK_DRIVER_PYTHON" in environment:
        return {"PYSPARK_PYTHON": chosen}
    if not master.startswith("local") or not _pyspark_is_whole(environment):
        return {"PYSPARK_PYTHON": sys.executable}
    return {"PYSPARK_PYTHON": str(_SCRIPT), "SHARDLINE_PYTHON": sys.executable}


def _pyspark_is_whole(environment: Mapping[str, str]) -> bool:
    """Return true if the pyspark of this process came with the Spark that it starts."""
    import pyspark

    package = Path(pyspark.__file__).parent
    spark_home = environment.get("SPARK_HOME", str(package))
    return package.is_dir() and Path(spark_home) == package and os.access(_SCRIPT, os.X_OK)
