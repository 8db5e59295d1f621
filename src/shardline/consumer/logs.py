"""The log lines of Spark's Python processes: one line each, where whoever started Spark sees them.

The processes of a source, of a task and of a runner begin with no logging set up. What they
write to their error stream Spark passes on to the driver, or to the log of an executor.
"""

from __future__ import annotations

import logging
from functools import lru_cache


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(super().format(record).split())


@lru_cache(maxsize=1)
def log_to_stderr() -> None:
    """Show warnings of shardline in this process, unless logging was set up already."""
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.setFormatter(_OneLine("%(levelname)s %(message)s"))
        logging.getLogger("shardline").addHandler(handler)
