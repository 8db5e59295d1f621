"""The process from which Spark forks its Python workers on this machine: see worker_python.py.

A worker that is forked imports what it needs by itself, which takes the workers of a consumer
longer than all else until their first read. Here it is imported once, before the first fork.
Nothing that starts threads may be imported here, for they do not survive a fork: no Arrow.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Final

from pyspark import daemon

from shardline.spark.quiet_workers import end_quietly

TASKS: Final = "pyspark.worker"
"""What Spark calls the workers that run tasks. Others plan, and hold no leases."""

_FOR_ALL: Final = ("shardline.services.connection",)
_FOR_TASKS: Final = (
    "shardline.consumer.job",
    "shardline.consumer.keeper",
    "shardline.leases.sql",
    "sqlalchemy.dialects.sqlite",
)


def import_ahead(kind: str) -> None:
    """Import what workers of a kind need. What is not installed here, they do not need."""
    for module in (*_FOR_ALL, *(_FOR_TASKS if kind == TASKS else ())):
        with suppress(ImportError):
            import_module(module)


if __name__ == "__main__":
    import_ahead(sys.argv[1] if len(sys.argv) > 1 else TASKS)
    end_quietly()
    daemon.manager()
