"""The Kinesis Client Library beside us: its Java form, and the daemon that Python users get.

`python -m bench.kcl` prints the table. It needs Java, Maven and the network once, for the jars, and
DynamoDB Local (`make setup`) for the library's leases. Two times are shown, because neither is fair
alone and they differ widely: from its first shard opened (its waiting and a cold JVM included), and
from its first record (what it had read ahead by then left out). The truth lies in between. What it
does before, for many seconds, is a line of its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.canned import Server, Stock, canned
from bench.environment import FOLDER
from bench.figures import Figure, print_plainly, ratios
from bench.readers import BASELINE, CONTENDERS, SCRIPTS, Run, run_once
from shardline.spark.java import java_home
from tests.servers.aws import dynamodb_local

VERSION: Final = "3.1.3"
ROUNDS: Final = 3
RECORDS: Final = 40_000
OURS: Final = "shardline, Arrow pages in CBOR"
NAME: Final = f"KCL {VERSION}, Java"
LIMIT_SECONDS: Final = 300
DAEMON_SECONDS: Final = 90
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>kcl</artifactId><version>1</version><dependencies><dependency>
<groupId>software.amazon.kinesis</groupId><artifactId>amazon-kinesis-client-multilang</artifactId>
<version>{version}</version></dependency></dependencies></project>
"""
_QUIET: Final = '<configuration><root level="OFF"/></configuration>'
_PROPERTIES: Final = """executableName = /bin/cat
streamName = {stream}
applicationName = kclpy-{now}
AwsCredentialsProvider = SystemPropertyCredentialsProvider
initialPositionInStream = TRIM_HORIZON
regionName = us-east-1
kinesisEndpoint = {kinesis}
dynamoDBEndpoint = {dynamodb}
metricsLevel = NONE
retrievalMode = POLLING
"""


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure for `python -m bench`."""
    return run(1 if quick else ROUNDS)


def run(rounds: int = ROUNDS) -> list[Figure]:
    """Let the library, the boto3 loop and us read the same stream in turns."""
    folder = _installed()
    stock = Stock("kcl", 8, RECORDS, 1_000)
    taken: dict[str, list[Run]] = {BASELINE: [], OURS: [], NAME: []}
    waited: list[float] = []
    delivered: list[float] = []
    with ExitStack() as stack:
        server = stack.enter_context(canned([stock]))
        dynamodb = stack.enter_context(dynamodb_local()).endpoint_url
        for _ in range(rounds):
            for name in (BASELINE, OURS):
                taken[name].append(run_once(server, stock, CONTENDERS[name]))
            began = time.perf_counter()
            told, delivering = _read(server, stock, folder, dynamodb)
            taken[NAME].append(told)
            delivered.append(delivering)
            waited.append(time.perf_counter() - began - taken[NAME][-1].wall_seconds)
        refused = _try_the_daemon(server, stock, folder, dynamodb)
    walls = {name: [each.wall_seconds for each in runs] for name, runs in taken.items()}
    peak = max(each.peak_rss_kib for each in taken[NAME]) / 1024
    opened, first = f"{NAME}, from first shard opened", f"{NAME}, from first record"
    return [
        Figure(opened, f"{BASELINE}, wall", ratios(walls[BASELINE], walls[NAME]),
               note=f"its waiting and a cold JVM included, {peak:.0f} MiB"),
        Figure(first, f"{BASELINE}, wall", ratios(walls[BASELINE], delivered),
               note="what it read ahead is left out"),
        Figure(OURS, opened, ratios(walls[NAME], walls[OURS])),
        Figure(OURS, first, ratios(delivered, walls[OURS])),
        Figure(f"{NAME}, start to first shard", "", tuple(waited), "s", note="leases of 2 s"),
        Figure(f"KCLPY's daemon {VERSION}", BASELINE, (), note=f"FAILED: {refused}"),
    ]  # fmt: skip


def _installed() -> Path:
    """Fetch the jars and compile our reader; both are kept in the folder of the contenders."""
    folder = FOLDER / "kcl"
    source, made = SCRIPTS / "KclReader.java", folder / "KclReader.class"
    if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format(version=VERSION))
    (folder / "logback.xml").write_text(_QUIET)
    maven = [
        "mvn",
        "-q",
        "-B",
        f"-Dmaven.repo.local={FOLDER / 'm2'}",
        "-f",
        str(folder / "pom.xml"),
    ]
    listed = f"-Dmdep.outputFile={folder / 'classpath.txt'}"
    for command in (
        [*maven, "dependency:build-classpath", listed],
        [_java("javac"), "-nowarn", "-cp", "@CLASSPATH", "-d", str(folder), str(source)],
    ):
        filled = [_classpath(folder) if part == "@CLASSPATH" else part for part in command]
        done = subprocess.run(filled, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            raise RuntimeError(f"{command[0]}: {said[0] if said else 'failed'}")
    return folder


def _classpath(folder: Path) -> str:
    return f"{(folder / 'classpath.txt').read_text().strip()}:{folder}"


def _java(program: str) -> str:
    return str(java_home() / "bin" / program)


def _read(server: Server, stock: Stock, folder: Path, dynamodb: str) -> tuple[Run, float]:
    """Let the library read; return what that cost, and the seconds from first record to last."""
    with TemporaryDirectory() as out:
        deliveries = Path(out) / "deliveries"
        command = [_java("java"), "-cp", _classpath(folder), "KclReader", server.endpoint_url]
        command += [stock.name, str(stock.records), str(deliveries), dynamodb]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
        )
        server.judge(stock.name, deliveries).require()
        told = json.loads(done.stdout.splitlines()[-1])
        delivering = told.pop("delivering_seconds")
        return Run(**told), delivering


def _try_the_daemon(server: Server, stock: Stock, folder: Path, dynamodb: str) -> str:
    """Start the daemon, and return what it complains about."""
    properties = folder / "daemon.properties"
    properties.write_text(
        _PROPERTIES.format(
            stream=stock.name,
            kinesis=server.endpoint_url,
            dynamodb=dynamodb,
            now=time.time_ns(),
        )
    )
    loud = folder / "loud.xml"
    loud.write_text(
        '<configuration><appender name="o" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
        '<pattern>%m%n%ex</pattern></encoder></appender><root level="WARN"><appender-ref ref="o"/>'
        "</root></configuration>"
    )
    command = [_java("java"), "-Daws.accessKeyId=local", "-Daws.secretAccessKey=local"]
    command += [f"-Dlogback.configurationFile={loud}", "-cp", _classpath(folder)]
    command += ["software.amazon.kinesis.multilang.MultiLangDaemon", "-p", str(properties)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=DAEMON_SECONDS
        )
        said = done.stdout + done.stderr
    except subprocess.TimeoutExpired as expired:
        said = (expired.stdout or b"").decode()
    found = re.search(r"Caused by: (?:\w+\.)*(Http2Exception.*|\w+Exception: .*)", said)
    reason = found[1][:90] if found else "it read nothing"
    return f"{reason} (it speaks HTTP/2 without TLS; `shardline local` speaks HTTP/1.1)"


def main() -> None:
    """Print the table."""
    print_plainly(run())


if __name__ == "__main__":
    main()
