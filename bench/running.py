"""Each bench in turn, in a process and within a time of its own; what it says is handed on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from bench.figures import SAID, Figure

if TYPE_CHECKING:
    from collections.abc import Callable


_ROOT: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one bench."""

    figures: list[Figure]
    error: str | None
    seconds: float
    load_before: float


def run_bench(
    name: str, *, quick: bool, limit_seconds: float, say: Callable[[str], None]
) -> Outcome:
    """Run a bench; one that fails, or takes too long, has an error and no figures."""
    load, started = os.getloadavg()[0], time.perf_counter()
    with TemporaryDirectory() as folder:
        file, log = Path(folder) / "figures.json", Path(folder) / "log"
        how = "quick" if quick else "full"
        command = [sys.executable, "-m", "bench.one", name, how, str(file)]
        with log.open("w") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, cwd=_ROOT
            )
        error = None
        try:
            code = _wait(process, log, started + limit_seconds, say)
            if code is None:
                error = f"it was stopped after {limit_seconds:.0f} s"
            elif code or not file.exists():
                error = _last_line(log) or f"it ended with {code}"
        finally:
            _end_group(process)
        figures = [] if error else [_figure(each) for each in json.loads(file.read_text())]
    return Outcome(figures, error, time.perf_counter() - started, load)


def _wait(
    process: subprocess.Popen[bytes], log: Path, deadline: float, say: Callable[[str], None]
) -> int | None:
    """Return how the process ended, or None if it did not in time; hand on what it says."""
    said = ""
    while time.perf_counter() < deadline:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.25)
        lines = [line for line in _lines(log) if line.startswith(SAID)]
        if lines and lines[-1] != said:
            said = lines[-1]
            say(said.removeprefix(SAID))
        if process.returncode is not None:
            return process.returncode
    return None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever the bench started and left behind, and the bench itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in _lines(log) if line.strip() and not line.startswith(SAID)]
    return lines[-1][:200] if lines else ""


def _figure(written: dict[str, object]) -> Figure:
    return Figure(**{**written, "rounds": tuple(written["rounds"])})  # type: ignore[arg-type]
