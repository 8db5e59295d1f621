"""`shardline local`: runs the embedded service until it is interrupted, or for one command."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from types import FrameType

    from shardline.local.service import Service

_WELCOME = """\
shardline local listens on {url}: Kinesis, DynamoDB and DynamoDB Streams, {storage}.
{streams}
For your shell:
  export AWS_ENDPOINT_URL_KINESIS={url}
  export AWS_ENDPOINT_URL_DYNAMODB={url}
  export AWS_ENDPOINT_URL_DYNAMODB_STREAMS={url}
  export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local AWS_DEFAULT_REGION={region}

In Python, without them:
  import boto3
  kinesis = boto3.client("kinesis", endpoint_url="{url}", region_name="{region}",
                         aws_access_key_id="local", aws_secret_access_key="local")
  kinesis.put_record(StreamName="{example}", PartitionKey="a", Data=b'{{"number": 1}}')

With the AWS CLI:
  aws kinesis create-stream --stream-name more --shard-count 2
  aws kinesis list-shards --stream-name {example}

Press Ctrl-C to stop."""


_PORT = 4567


def local(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND", help="Run this program against the service, then stop."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help=f"0 selects a free port. Default: {_PORT}, or 0 with a command.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Outside loopback, every client that can connect has full access."),
    ] = "127.0.0.1",
    limits: Annotated[
        bool, typer.Option("--limits", help="Throttle as AWS does: 5 reads per second and shard, …")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="As AWS at its worst: limits, status delays, empty pages, stale listings, "
            "cut answers.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random faults of --strict.")] = 0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also answer requests for this host name."),
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option(metavar="NAME:SHARDS", help="Create a stream at the start.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Store all state in this file and restore it at the start."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON when the service is ready.")
    ] = False,
) -> None:
    """Run Kinesis, DynamoDB and DynamoDB Streams on this machine, without AWS."""
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    wanted = [_name_and_count(text) for text in stream or []]
    options: dict[str, Any] = {
        "limits": limits or strict,
        "strict": strict,
        "seed": seed,
        "allowed_hosts": allow_host or (),
        "file": file,
    }
    if port is None:
        port = 0 if command else _PORT
    with _start(host, port, options) as service:
        existing = service.shard_counts()
        for name, count in wanted:
            if name not in existing:
                service.create_stream(name, count)
        if command:
            raise typer.Exit(_run(command, service, stopped))
        if as_json:
            _print_ready(service, file)
        else:
            typer.echo(_welcome(service, wanted, file))
        stopped.wait()
    if not as_json:
        typer.echo("shardline local: stopped.")


def _start(host: str, port: int, options: dict[str, Any]) -> Service:
    try:
        from shardline.local.service import Service
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed: pip install 'shardline[local]'"
        ) from None
    return Service(host, port, **options)


def _run(command: list[str], service: Service, stopped: threading.Event) -> int:
    """Run a program with an environment that leads to the service; return its exit code.

    A SIGTERM is passed on to the program: with its end this one ends.
    """
    from shardline.local.settings import REGION

    url = service.endpoint_url
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "AWS_ENDPOINT_URL_KINESIS": url,
        "AWS_ENDPOINT_URL_DYNAMODB": url,
        "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": url,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
    }
    try:
        program = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own
    except OSError as error:
        raise ConfigurationError(f"cannot run {command[0]}: {error.strerror}") from None

    def pass_on(number: int, _frame: FrameType | None) -> None:
        program.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)  # a Ctrl-C reaches the program from the terminal
    if stopped.is_set():
        program.terminate()
    code = program.wait()
    return code if code >= 0 else 128 - code


def _name_and_count(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    if not name or not (count or "1").isdecimal() or int(count or 1) < 1:
        raise ConfigurationError(f"--stream {text!r}: write NAME:SHARDS, for example orders:2")
    return name, int(count or 1)


def _print_ready(service: Service, file: Path | None) -> None:
    from shardline.cli.output import print_json_line
    from shardline.local.settings import REGION

    print_json_line(
        event="ready",
        endpoint_url=service.endpoint_url,
        region=REGION,
        streams=[
            {"name": name, "open_shards": count} for name, count in service.shard_counts().items()
        ],
        limits=service.limits.enabled,
        file=file,
    )


def _welcome(service: Service, streams: list[tuple[str, int]], file: Path | None) -> str:
    from shardline.local.settings import REGION

    lines = "".join(f"\nStream {name} with {count} shards.\n" for name, count in streams)
    example = streams[0][0] if streams else "more"
    storage = f"stored in {file}" if file else "in memory only"
    return _WELCOME.format(
        url=service.endpoint_url, region=REGION, streams=lines, example=example, storage=storage
    )
