"""Spark's own limit: the time of a batch whose source does nothing.

A record that comes while a batch runs waits for its end and for the batch after it. So no source
of a query delivers faster, however it reads.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

from bench.contenders import SCRIPTS
from bench.figures import Figure

BATCHES: Final = 15
QUICK_BATCHES: Final = 5


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """Return the seconds of a batch."""
    batches = QUICK_BATCHES if quick else BATCHES
    command = [sys.executable, str(SCRIPTS / "spark_batches.py"), str(batches)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1][:200])
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        Figure(f"a batch of {name}", "", tuple(seconds), "s").as_json()
        for name, seconds in found.items()
    ]
