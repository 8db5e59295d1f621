"""The Kinesis Client Library beside us: its Java form, and KCLPY, which Python users get.

`python -m bench.kcl` prints the table. It needs Java, Maven and the network once, for the jars, and
DynamoDB Local (`make setup`) for the library's leases. Two times are shown: from its first shard
opened, which counts a cold JVM and its own waiting (at least 200 ms between reads of a shard), and
that of the second half of all records, which is what it does in full swing. What it does before,
for many seconds, is a line of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.canned import Server, Stock, canned
from bench.environment import FOLDER
from bench.figures import Figure, print_plainly, ratios, say
from bench.readers import BASELINE, CONTENDERS, SCRIPTS, run_once
from shardline.spark.java import java_home
from tests.servers.aws import dynamodb_local

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION: Final = "3.1.3"
KCLPY_VERSION: Final = "3.2.0"
ROUNDS: Final = 3
RECORDS: Final = 160_000
OURS: Final = "shardline, Arrow pages in CBOR"
LIMIT_SECONDS: Final = 180
_SOURCES: Final = ("KclReader.java", "KinesisClientUtil.java")
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>kcl</artifactId><version>1</version><dependencies><dependency>
<groupId>software.amazon.kinesis</groupId><artifactId>amazon-kinesis-client-multilang</artifactId>
<version>{version}</version></dependency></dependencies></project>
"""
_QUIET: Final = '<configuration><root level="OFF"/></configuration>'
_PROPERTIES: Final = """executableName = {python} {script} {folder}
streamName = {stream}
applicationName = {application}
AwsCredentialsProvider = SystemPropertyCredentialsProvider
initialPositionInStream = TRIM_HORIZON
regionName = us-east-1
kinesisEndpoint = {kinesis}
dynamoDBEndpoint = {dynamodb}
metricsLevel = NONE
retrievalMode = POLLING
maxRecords = 10000
idleTimeBetweenReadsInMillis = 200
failoverTimeMillis = 10000
parentShardPollIntervalMillis = 100
shardSyncIntervalMillis = 1000
"""


class Took(NamedTuple):
    """What one run of the library took."""

    wall_seconds: float
    """From its first shard opened."""
    second_half_seconds: float
    starting_seconds: float
    """From its start to its first shard opened."""
    note: str


class Setting(NamedTuple):
    """Where everything is."""

    server: Server
    stock: Stock
    folder: Path
    dynamodb: str


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure for `python -m bench`."""
    return run(1 if quick else ROUNDS)


def run(rounds: int = ROUNDS) -> list[Figure]:
    """Let the library in both forms, the boto3 loop and us read the same stream in turns."""
    say("fetching and compiling")
    folder = _installed()
    stock = Stock("kcl", 8, RECORDS, 1_000)
    readers: dict[str, Callable[[Setting], Took]] = {
        f"KCL {VERSION}, Java": _read_with_java,
        f"KCLPY {KCLPY_VERSION} on daemon {VERSION}": _read_with_python,
    }
    walls: dict[str, list[float]] = {BASELINE: [], OURS: []}
    taken: dict[str, dict[int, Took]] = {name: {} for name in readers}
    errors: dict[str, str] = {}
    with ExitStack() as stack:
        say(f"writing {RECORDS:,} records")
        server = stack.enter_context(canned([stock]))
        dynamodb = stack.enter_context(dynamodb_local()).endpoint_url
        setting = Setting(server, stock, folder, dynamodb)
        for turn in range(rounds):
            for name, walls_of in walls.items():
                walls_of.append(run_once(server, stock, CONTENDERS[name]).wall_seconds)
            for name, read in readers.items():
                if name in errors and not taken[name]:
                    continue  # it fails from the start
                say(f"round {turn + 1} of {rounds}: {name}")
                try:
                    taken[name][turn] = read(setting)
                except Exception as error:  # who fails is a line of the table
                    lines = str(error).strip().splitlines()
                    errors[name] = f"{type(error).__name__}: {lines[-1][:120] if lines else ''}"
    measured = [Figure(n, BASELINE, (), note=f"FAILED: {error}") for n, error in errors.items()]
    for name, by_turn in taken.items():
        if by_turn:
            same_turns = {who: [of[turn] for turn in by_turn] for who, of in walls.items()}
            measured += _figures(name, list(by_turn.values()), same_turns)
    return measured


def _figures(name: str, taken: list[Took], walls: dict[str, list[float]]) -> list[Figure]:
    whole, half = f"{name}, from first shard opened", f"{name}, its second half"
    opened = [each.wall_seconds for each in taken]
    # Half of the records, so what it would take for all of them.
    swing = [2 * each.second_half_seconds for each in taken]
    return [
        Figure(
            OURS, whole, ratios(opened, walls[OURS]), note="its waiting and a cold start included"
        ),
        Figure(OURS, half, ratios(swing, walls[OURS]), note="in full swing; ours as a whole"),
        Figure(whole, BASELINE, ratios(walls[BASELINE], opened), note=taken[-1].note),
        Figure(half, BASELINE, ratios(walls[BASELINE], swing)),
        Figure(f"{name}, start to first shard", "", tuple(t.starting_seconds for t in taken), "s"),
    ]


# --- what is installed --------------------------------------------------------------------------


def _installed() -> Path:
    """Fetch the jars and compile what is ours; all is kept in the folder of the contenders."""
    folder = FOLDER / "kcl"
    sources = [SCRIPTS / name for name in _SOURCES]
    made = folder / "KclReader.class"
    if made.exists() and made.stat().st_mtime > max(each.stat().st_mtime for each in sources):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format(version=VERSION))
    (folder / "logback.xml").write_text(_QUIET)
    repository, project = f"-Dmaven.repo.local={FOLDER / 'm2'}", str(folder / "pom.xml")
    listed = f"-Dmdep.outputFile={folder / 'classpath.txt'}"
    _do("mvn", "-q", "-B", repository, "-f", project, "dependency:build-classpath", listed)
    files = map(str, sources)
    _do(_java("javac"), "-nowarn", "-cp", _classpath(folder), "-d", str(folder), *files)
    made.touch()
    return folder


def _kclpy_installed() -> Path:
    """Unpack KCLPY's Python part: its setup wants to fetch jars that mirrors may not have."""
    folder = FOLDER / "kclpy"
    unpacked = folder / f"amazon_kclpy-{KCLPY_VERSION}"
    if not unpacked.exists():
        wanted = f"amazon_kclpy=={KCLPY_VERSION}"
        pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:")
        _do(*pip, "-d", str(folder), wanted)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
    return unpacked


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        said = [line for line in lines if "ERROR" in line] or lines[-1:]
        raise RuntimeError(f"{command[0]}: {said[0] if said else 'failed'}")


def _classpath(folder: Path) -> str:
    # Ours first: one class stands in for the library's own.
    return f"{folder}:{(folder / 'classpath.txt').read_text().strip()}"


def _java(program: str) -> str:
    return str(java_home() / "bin" / program)


# --- who reads ----------------------------------------------------------------------------------


def _application() -> str:
    return f"bench-{time.time_ns()}"


def _read_with_java(setting: Setting) -> Took:
    server, stock, folder, dynamodb = setting
    with TemporaryDirectory() as out:
        deliveries = Path(out) / "deliveries"
        command = [_java("java"), "-cp", _classpath(folder), "KclReader", server.endpoint_url]
        command += [stock.name, str(stock.records), str(deliveries), dynamodb]
        command += [_application()]
        began = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
        )
        told = json.loads(next(x for x in done.stdout.splitlines() if x.startswith("{")))
        starting = time.perf_counter() - began - told["wall_seconds"]
        server.judge(stock.name, deliveries).require()
    cpu = told["cpu_seconds"] / stock.records * 1e6
    note = f"{cpu:.1f} CPU s a million records, peak {told['peak_rss_kib'] / 1024:.0f} MiB"
    return Took(told["wall_seconds"], told["second_half_seconds"], starting, note)


def _read_with_python(setting: Setting) -> Took:
    server, stock, folder, dynamodb = setting
    with TemporaryDirectory() as out:
        properties = folder / "daemon.properties"
        properties.write_text(
            _PROPERTIES.format(
                python=sys.executable,
                script=SCRIPTS / "kclpy_processor.py",
                folder=out,
                stream=stock.name,
                kinesis=server.endpoint_url,
                dynamodb=dynamodb,
                application=_application(),
            )
        )
        command = [_java("java"), "-Daws.accessKeyId=local", "-Daws.secretAccessKey=local"]
        command += ["-cp", _classpath(folder), "software.amazon.kinesis.multilang.MultiLangDaemon"]
        began = time.time()
        with subprocess.Popen(
            [*command, "-p", str(properties)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(_kclpy_installed())},
        ) as daemon:
            try:
                times = _wait_for_all(Path(out), stock.records, daemon)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(daemon.pid, signal.SIGKILL)
        deliveries = Path(out) / "deliveries"
        shards = sorted(path for path in Path(out).glob("shardId-*") if not path.suffix)
        deliveries.write_text("".join(path.read_text() for path in shards))
        server.judge(stock.name, deliveries).require()
    opened, last = times[0][0], times[-1][0]
    half, came = last, 0
    for at, count in times:
        came += count
        if came >= stock.records / 2:
            half = at
            break
    note = "one class replaced so that it speaks HTTP/1.1; a process for each shard"
    return Took(last - opened, last - half, opened - began, note)


def _wait_for_all(
    folder: Path, records: int, daemon: subprocess.Popen[bytes]
) -> list[tuple[float, int]]:
    """Return when how many records came, in order, once all have come."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        lines = [
            line.split()
            for path in folder.glob("*.times")
            for line in path.read_text().splitlines()
        ]
        times = sorted((float(at), int(count)) for at, count in lines)
        came = sum(count for _, count in times)
        if came >= records:
            return times
        if daemon.poll() is not None:
            raise RuntimeError(f"the daemon ended with {daemon.returncode} after {came:,} records")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{came:,} of {records:,} records after {LIMIT_SECONDS} s")
        time.sleep(0.2)


def main() -> None:
    """Print the table."""
    print_plainly(run())


if __name__ == "__main__":
    main()
