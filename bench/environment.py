"""The machine, the versions, and the environments of the contenders."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent.parent / ".bench"
"""Everything that is installed for contenders only; remove it to start anew."""
_NAMED: Final = ("shardline", "boto3", "botocore", "msgspec", "numpy", "pyarrow", "pyspark")


def python_with(name: str, *requirements: str) -> Path:
    """Return the Python of a contender's own environment, which is made when it is missing."""
    folder = FOLDER / name
    stamp = folder / ".installed"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *requirements)
        stamp.write_text(wanted)
    return folder / "bin" / "python"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"{' '.join(command[:4])} failed: {lines[-1] if lines else 'silently'}")


def described() -> dict[str, Any]:
    """Return the machine and the versions."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "versions": {name: _version(name) for name in _NAMED},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "")
