"""Runs the fast tests with the lowest and the newest versions of what shardline depends on.

Each environment is a folder in .venvs/. `lowest` and `newest` are the two ends of what
pyproject.toml allows; `aiobotocore` adds the package that pins botocore to an older release; `base`
has no extra at all. `spark-3.5`, `spark-4.0` and `connect` run the consumers on other Sparks than
the one that is developed with; the DataFrame source needs Spark 4.2. `delta` runs the recipe of a
copy in Delta, on the newest Spark for which there is a Delta.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / ".venvs"
EXTRAS: Final = "[cli,local,metrics,postgresql,sql,tables]"
TESTING: Final = ("hypothesis", "packaging", "pytest", "pytest-timeout")
SHOWN: Final = (
    *("boto3", "botocore", "msgspec", "numpy", "pyarrow", "pybase64"),
    *("pydantic", "sqlalchemy", "typer", "rich", "aiohttp", "aiobotocore"),
)
FAST_TESTS: Final = (
    *(
        "tests/unit",
        "tests/contract",
        "--ignore=tests/unit/spark",
        "--ignore=tests/unit/test_docs.py",
    ),
    *("--ignore=tests/unit/cli/test_run.py", "--ignore=tests/unit/cli/test_demo.py"),
    *("-k", "not kinesalite and not kinesis_mock and not ministack and not dynamodb_local"),
)

CONSUMERS: Final = ("tests/spark/test_consumers.py",)

QUIET: Final = ("-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning")
"""Old releases of one package use what new ones of another have deprecated."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the tests to run in it."""

    name: str
    packages: tuple[str, ...]
    resolution: str = "highest"
    tests: tuple[str, ...] = field(default=FAST_TESTS)


ENVIRONMENTS: Final = (
    Environment(
        "base",
        (".",),
        tests=("--noconftest", "tests/unit/test_light_install.py", "tests/unit/core"),
    ),
    Environment(
        "lowest",
        (f".{EXTRAS}",),
        resolution="lowest-direct",
        # Held against the newest model of the service, which an old botocore does not have.
        tests=(*FAST_TESTS, "--ignore=tests/unit/local/kinesis/test_requests.py"),
    ),
    Environment("newest", (f".{EXTRAS}",)),
    Environment("aiobotocore", (f".{EXTRAS}", "aiobotocore")),
    Environment("spark-3.5", (f".{EXTRAS}", "pyspark==3.5.*"), tests=CONSUMERS),
    Environment("spark-4.0", (f".{EXTRAS}", "pyspark==4.0.*"), tests=CONSUMERS),
    Environment("connect", (f".{EXTRAS}", "pyspark[connect]==4.0.*"), tests=("tests/connect",)),
    Environment(
        "delta",
        (f".{EXTRAS}", "pyspark==4.2.*", "delta-spark==4.4.0"),
        tests=("tests/delta",),
    ),
)


def make(environment: Environment, uv: str) -> Path:
    """Make the environment anew, and return its Python."""
    folder = FOLDER / environment.name
    shutil.rmtree(folder, ignore_errors=True)
    _run(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
    python = folder / "bin/python"
    install = (uv, "pip", "install", "--quiet", "--python", str(python))
    # Apart from each other, so that the lowest versions are those of shardline only.
    _run(*install, "--resolution", environment.resolution, "--editable", *environment.packages)
    frozen = subprocess.run(
        [uv, "pip", "freeze", "--python", str(python)], capture_output=True, text=True, check=True
    )
    held = FOLDER / f"{environment.name}.txt"
    held.write_text(
        "".join(f"{line}\n" for line in frozen.stdout.splitlines() if "==" in line),
        encoding="utf-8",
    )
    _run(*install, "--constraints", str(held), *TESTING)
    return python


def versions(python: Path) -> str:
    """Return the installed versions of what matters, in one line."""
    script = (
        "import importlib.metadata as m, sys\n"
        "found = {d.name.lower(): d.version for d in m.distributions()}\n"
        "print(*(f'{n} {found[n]}' for n in sys.argv[1:] if n in found), sep=', ')"
    )
    return subprocess.run(
        [python, "-c", script, *SHOWN], capture_output=True, text=True, check=True
    ).stdout.strip()


def main(wanted: list[str]) -> int:
    """Run the tests in the named environments, or in all; return 1 if any failed."""
    uv = str(Path(sys.executable).with_name("uv"))
    summary = []
    for environment in ENVIRONMENTS:
        if wanted and environment.name not in wanted:
            continue
        started = time.monotonic()
        python = make(environment, uv)
        sys.stdout.write(f"\n── {environment.name}: {versions(python)}\n")
        sys.stdout.flush()
        tests = subprocess.run(
            [python, "-m", "pytest", "-q", *QUIET, *environment.tests],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            check=False,
        )
        verdict = "FAILED" if tests.returncode else "passed"
        seconds = time.monotonic() - started
        summary.append(f"  {environment.name:<12} {seconds:>5.0f} s  {verdict}")
    sys.stdout.write("\nVersions:\n" + "\n".join(summary) + "\n")
    return int(any("FAILED" in line for line in summary))


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
