"""One piece, a part with one contender, in a process and within a time of its own.

`python -m bench.piece PART CONTENDER full|quick FILE` writes what was measured as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from bench.contenders import CONTENDERS

NOBODY: Final = "-"
"""The contender of a part that has none."""
_ROOT: Final = Path(__file__).parent.parent
_STOP_SECONDS: Final = 10.0
_running: Final[set[subprocess.Popen[bytes]]] = set()


class Piece(NamedTuple):
    """What came of a piece."""

    data: Any
    error: str | None
    seconds: float


def run_piece(
    part: str, contender: str, *, quick: bool, limit_seconds: float, nice: int = 0
) -> Piece:
    """Run a piece; one that fails or takes too long has an error of one line."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="bench-") as folder:
        file, log = Path(folder) / "data.json", Path(folder) / "log"
        command = ["nice", "-n", str(nice)] if nice else []
        command += [sys.executable, "-m", "bench.piece", part, contender]
        command += ["quick" if quick else "full", str(file)]
        with log.open("w") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, cwd=_ROOT
            )
        error = None
        _running.add(process)
        try:
            code = process.wait(limit_seconds)
            if code or not file.exists():
                error = _last_line(log) or f"it ended with {code}"
        except subprocess.TimeoutExpired:
            error = f"it was stopped after {limit_seconds:.0f} s"
        finally:
            _end(process)
            _running.discard(process)
        data = None if error else json.loads(file.read_text())
    return Piece(data, error, time.monotonic() - began)


def end_all() -> None:
    """End the pieces that run in other threads."""
    for process in list(_running):
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a piece with all that it started: it stops its contender when it is asked to end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def main() -> None:
    """Measure, and write the file."""
    part, contender, how, file = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that contexts are left
    module = importlib.import_module(f"bench.parts.{part}")
    quick = how == "quick"
    if contender == NOBODY:
        data = module.measure(quick=quick)
    else:
        data = module.measure(CONTENDERS[contender], quick=quick)
    Path(file).write_text(json.dumps(data))


if __name__ == "__main__":
    main()
