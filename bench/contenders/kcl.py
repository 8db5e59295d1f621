"""The Kinesis Client Library: its jars, its daemon for Python, and its lease tables.

It needs Java, Maven and the network once, and DynamoDB Local (`make setup`) for its leases.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import boto3

from bench.environment import FOLDER
from shardline.spark.java import java_home

VERSION: Final = "3.1.3"
KCLPY_VERSION: Final = "3.2.0"
DYNAMODB_VARIABLE: Final = "BENCH_DYNAMODB"
"""Where DynamoDB Local is: one for the whole run."""
KNOWN_APP: Final = "bench"
"""What the names of apps begin with that have run before: their leases are to be found soon."""
_TABLES: Final = {"": "leaseKey", "-CoordinatorState": "key", "-WorkerMetricStats": "wid"}
_SCRIPTS: Final = Path(__file__).parent
_SOURCES: Final = ("KclReader.java", "KinesisClientUtil.java")
_FOLDER: Final = FOLDER / "kcl"
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>kcl</artifactId><version>1</version><dependencies><dependency>
<groupId>software.amazon.kinesis</groupId><artifactId>amazon-kinesis-client-multilang</artifactId>
<version>{version}</version></dependency></dependencies></project>
"""
_NO_LOGS: Final = '<configuration><root level="OFF"/></configuration>'
_PROPERTIES: Final = """executableName = {python} {script} {folder} {detail}
streamName = {stream}
applicationName = {app}
workerId = {worker}
AwsCredentialsProvider = SystemPropertyCredentialsProvider
initialPositionInStream = TRIM_HORIZON
regionName = us-east-1
kinesisEndpoint = {kinesis}
dynamoDBEndpoint = {dynamodb}
metricsLevel = NONE
retrievalMode = {retrieval}
maxRecords = 10000
idleTimeBetweenReadsInMillis = 200
failoverTimeMillis = {failover_ms}
parentShardPollIntervalMillis = 100
shardSyncIntervalMillis = 1000
"""


def java_command(arguments: list[str], retrieval: str = "polling") -> list[str]:
    """Return the command of the reader in Java; `retrieval` is "polling" or "fan-out"."""
    install()
    more = [str(_failover_ms(arguments[3])), retrieval]
    return [_java("java"), "-cp", _classpath(), "KclReader", *arguments, _dynamodb(), *more]


def kclpy_command(arguments: list[str], retrieval: str = "POLLING") -> list[str]:
    """Return the command of KCLPY's daemon; `retrieval` is "POLLING" or "FANOUT"."""
    install()
    kinesis, stream, folder, app, worker, detail = arguments
    properties = Path(folder) / f"{worker}.properties"
    script, dynamodb = _SCRIPTS / "kclpy_processor.py", _dynamodb()
    failover_ms = _failover_ms(app)
    properties.write_text(_PROPERTIES.format(python=sys.executable, **locals()))
    command = [_java("java"), "-Daws.accessKeyId=local", "-Daws.secretAccessKey=local"]
    command += ["-cp", _classpath(), "software.amazon.kinesis.multilang.MultiLangDaemon"]
    return [*command, "-p", str(properties)]


def _failover_ms(app: str) -> int:
    """Return its failover time: it looks for leases twice as seldom, also at its start."""
    return 4_000 if app.startswith(KNOWN_APP) else 10_000


def prepare(app: str, shards: int) -> None:
    """Leave the tables of the known app as a run before left them, with leases that nobody holds.

    Making its tables takes the library most of a minute, which is a figure of its own (a new app).
    """
    if not app.startswith(KNOWN_APP):
        return
    existing = _client().list_tables()["TableNames"]
    for suffix, key in _TABLES.items():
        if app + suffix in existing:
            _client().delete_table(TableName=app + suffix)
        _client().create_table(**_table(app + suffix, key))
    for shard in range(shards):
        low, high = (str(n * 2**128 // shards - (n > shard)) for n in (shard, shard + 1))
        _client().put_item(
            TableName=app,
            Item={
                "leaseKey": {"S": f"shardId-{shard:012d}"},
                "checkpoint": {"S": "TRIM_HORIZON"},
                "checkpointSubSequenceNumber": {"N": "0"},
                "leaseCounter": {"N": "0"},
                "ownerSwitchesSinceCheckpoint": {"N": "0"},
                "startingHashKey": {"S": low},
                "endingHashKey": {"S": high},
            },
        )


def _table(name: str, key: str) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "TableName": name,
        "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    if key == "leaseKey":
        asked["AttributeDefinitions"].append({"AttributeName": "leaseOwner", "AttributeType": "S"})
        index = {
            "IndexName": "LeaseOwnerToLeaseKeyIndex",
            "KeySchema": [
                {"AttributeName": "leaseOwner", "KeyType": "HASH"},
                {"AttributeName": key, "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
        asked["GlobalSecondaryIndexes"] = [index]
    return asked


def _dynamodb() -> str:
    return os.environ[DYNAMODB_VARIABLE]


@cache
def _client() -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=_dynamodb(),
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - any will do
    )


def install() -> None:
    """Fetch the jars and compile what is ours; all is kept in the folder of the contenders."""
    sources = [_SCRIPTS / name for name in _SOURCES]
    made = _FOLDER / "KclReader.class"
    if made.exists() and made.stat().st_mtime > max(each.stat().st_mtime for each in sources):
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    (_FOLDER / "pom.xml").write_text(_POM.format(version=VERSION))
    (_FOLDER / "logback.xml").write_text(_NO_LOGS)
    if not (_FOLDER / "classpath.txt").exists():
        repository, project = f"-Dmaven.repo.local={FOLDER / 'm2'}", str(_FOLDER / "pom.xml")
        listed = f"-Dmdep.outputFile={_FOLDER / 'classpath.txt'}"
        _do("mvn", "-q", "-B", repository, "-f", project, "dependency:build-classpath", listed)
    files = map(str, sources)
    _do(_java("javac"), "-nowarn", "-cp", _classpath(), "-d", str(_FOLDER), *files)
    made.touch()


def kclpy_folder() -> Path:
    """Return KCLPY's Python part, unpacked: its setup fetches jars that mirrors may not have."""
    folder = FOLDER / "kclpy"
    unpacked = folder / f"amazon_kclpy-{KCLPY_VERSION}"
    if not unpacked.exists():
        pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:")
        _do(*pip, "-d", str(folder), f"amazon_kclpy=={KCLPY_VERSION}")
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
    return unpacked


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        errors = [line for line in lines if "ERROR" in line] or lines[-1:]
        raise RuntimeError(f"{command[0]}: {errors[0] if errors else 'failed'}")


def _classpath() -> str:
    # Ours first: one class replaces the library's own.
    return f"{_FOLDER}:{(_FOLDER / 'classpath.txt').read_text().strip()}"


def _java(program: str) -> str:
    return str(java_home() / "bin" / program)
