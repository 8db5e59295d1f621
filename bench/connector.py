"""The Spark connector of awslabs beside us, where a release of it resolves.

`python -m bench.connector` says whether it does. Its releases are not on Maven Central: they lie in
a bucket of S3 and on GitHub, so that a machine behind a mirror cannot fetch them.
"""

from __future__ import annotations

import subprocess
from typing import Final

import urllib3

from bench.environment import FOLDER
from bench.figures import Figure, print_plainly

NAME: Final = "spark-streaming-sql-kinesis-connector_2.13"
VERSION: Final = "2.0.0"
"""The first for Spark 4."""
PLACES: Final = {
    "S3": "https://awslabs-code-us-east-1.s3.amazonaws.com/spark-sql-kinesis-connector/"
    f"{NAME}-{VERSION}.jar",
    "GitHub": "https://github.com/awslabs/spark-sql-kinesis-connector/releases/download/"
    f"v{VERSION}/{NAME}-{VERSION}.jar",
}
TIMEOUT_SECONDS: Final = 15
MAVEN_SECONDS: Final = 120


def figures(*, quick: bool = False) -> list[Figure]:  # noqa: ARG001 - as every bench
    """Look for the jar; the line says where it was looked for and what came of it."""
    answers = {"Maven": _answer_of_maven()}
    answers |= {place: _answer(url) for place, url in PLACES.items()}
    said = "; ".join(f"{place}: {answer}" for place, answer in answers.items())
    found = [place for place, answer in answers.items() if answer == "there"]
    note = f"FAILED: no jar of {VERSION} ({said})"
    if found:
        note = f"FAILED: its jar is at {found[0]}, but nobody has measured it yet: add a reader"
    return [Figure(f"awslabs connector {VERSION}", "Spark → noop", (), note=note)]


def _answer_of_maven() -> str:
    """Ask the repositories that this machine's Maven knows."""
    command = ["mvn", "-q", "-B", f"-Dmaven.repo.local={FOLDER / 'm2'}", "dependency:get"]
    command += [f"-Dartifact=org.apache.spark:{NAME}:{VERSION}", "-Dtransitive=false"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=MAVEN_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "not found" if done.returncode else "there"


def _answer(url: str) -> str:
    try:
        answer = urllib3.request("HEAD", url, timeout=TIMEOUT_SECONDS, retries=False)
    except urllib3.exceptions.HTTPError as error:
        return str(error).rpartition(": ")[2]
    return "there" if answer.status == 200 else f"{answer.status} {answer.reason}"


def main() -> None:
    """Print the line."""
    print_plainly(figures())


if __name__ == "__main__":
    main()
