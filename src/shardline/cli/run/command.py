"""`shardline run`: a consumer on Spark, sharing its stream with the other workers of its app."""

import logging
import os
import signal
import sys
import threading
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shardline.cli.options import EndpointUrl, Place, Profile, Region
from shardline.cli.program import ExitCode
from shardline.cli.run.consumer import load_consumer
from shardline.cli.run.report import (
    SPARK_DIED,
    SPARK_STOPPED_TOO,
    JsonLines,
    Prose,
    Report,
    is_spark_gone,
    judge_failure,
)
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shardline.spark.consuming import Consumption


_POLL_SECONDS: Final = 0.3


def run(
    consumer: Annotated[
        str, typer.Argument(metavar="MODULE:CONSUMER", help="A ShardConsumer, or an instance.")
    ],
    stream: Annotated[str, typer.Option(help="kinesis://NAME or dynamodb://TABLE.")],
    app: Annotated[
        str | None, typer.Option(help="Workers of the same app share the stream.")
    ] = None,
    lease_table: Annotated[
        str | None,
        typer.Option(
            help="sqlite:///FILE (one machine), postgresql://HOST/DATABASE or dynamodb://TABLE.",
            show_default="sqlite:///shardline-leases.db",
        ),
    ] = None,
    lease_endpoint_url: Annotated[
        str | None, typer.Option(help="Another DynamoDB than AWS's, for the lease table.")
    ] = None,
    worker_name: Annotated[
        str | None,
        typer.Option(help="Stable over restarts: a new process takes over from the last at once."),
    ] = None,
    lease_seconds: Annotated[
        int, typer.Option(min=3, help="How long a silent worker keeps its shards.")
    ] = 10,
    start: Annotated[
        str, typer.Option(help="Where a new app begins: trim_horizon, latest or an ISO time.")
    ] = "trim_horizon",
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Alone, from the latest point, no lease table.")
    ] = False,
    go_on_after_gaps: Annotated[
        bool,
        typer.Option(
            "--go-on-after-gaps",
            help="Where the stream dropped unread records, note that and go on, instead of ending.",
        ),
    ] = False,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    checkpoint: Annotated[
        str | None, typer.Option(help="Spark's checkpoint folder.", show_default="temporary")
    ] = None,
    max_records_per_batch: Annotated[
        int, typer.Option(min=1, help="The most that a consumer gets in one batch.")
    ] = 10_000,
    grace_seconds: Annotated[
        float, typer.Option(min=0, help="How long a running batch may take to end at a stop.")
    ] = 30.0,
    status_seconds: Annotated[
        float, typer.Option(min=1, help="How often to print a line about what is going on.")
    ] = 10.0,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Serve Prometheus metrics here, on loopback."),
    ] = None,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    profile: Profile = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print a line of JSON for each event: started, status, stopping, stopped, failed.",
        ),
    ] = False,
) -> None:
    """Run a consumer on a stream, with Spark, until Ctrl-C or SIGTERM.

    The first signal lets the running batch end, checkpoints it and gives every lease back; a
    second one leaves at once, and the batch is repeated by whoever gets its shards.
    """
    if not ephemeral and app is None:
        raise ConfigurationError(
            "say which app this worker belongs to: --app NAME (or --ephemeral, alone)"
        )
    loaded = load_consumer(consumer)
    from shardline.cli.run.checks import require_metrics, require_stream, require_table
    from shardline.spark.consuming import DEFAULT_LEASE_TABLE, consume
    from shardline.spark.session import session

    place = Place(region=region, endpoint_url=endpoint_url, profile=profile)
    report: Report = JsonLines(leased=not ephemeral) if as_json else Prose(leased=not ephemeral)
    stopping, leaving = threading.Event(), threading.Event()

    def start_spark() -> "SparkSession":
        # What is wrong is said now, and not after Spark has taken its seconds to start.
        require_metrics(metrics_port)
        require_stream(stream, place)
        if not ephemeral:
            lease_place = Place(region=region, endpoint_url=lease_endpoint_url, profile=profile)
            require_table(lease_table or DEFAULT_LEASE_TABLE, lease_place)
        spark = session(f"shardline {app or 'ephemeral'}", master, **_quiet())
        # After Spark, which takes Ctrl-C for "cancel all jobs".
        _on_signals(stopping, leaving, report)
        return spark

    consumption = consume(
        start_spark,
        loaded,
        stream=stream,
        app=app,
        lease_table=lease_table,
        lease_endpoint_url=lease_endpoint_url,
        worker_name=worker_name,
        lease_seconds=lease_seconds,
        start=start,
        ephemeral=ephemeral,
        checkpoint=checkpoint,
        max_records_per_batch=max_records_per_batch,
        fail_on_data_loss=not go_on_after_gaps,
        **place,
    )
    report.started(type(loaded).__name__, stream, app)
    if metrics_port is not None:
        consumption.metrics.serve(metrics_port)
    try:
        code = _until_the_end(consumption, stopping, leaving, report, status_seconds, grace_seconds)
    except Exception as error:
        if not is_spark_gone(error):
            raise
        code = ExitCode.FAILED
        report.failed(SPARK_STOPPED_TOO if stopping.is_set() else SPARK_DIED, code)
        sys.stderr.flush()
        os._exit(code)  # what Spark left in this process could only complain
    raise typer.Exit(code)


def _until_the_end(
    consumption: "Consumption",
    stopping: threading.Event,
    leaving: threading.Event,
    report: Report,
    status_seconds: float,
    grace_seconds: float,
) -> ExitCode:
    told_at = time.monotonic()
    while consumption.query.isActive and not stopping.wait(_POLL_SECONDS):
        if time.monotonic() - told_at >= status_seconds:
            told_at = time.monotonic()
            report.status(consumption.metrics)
    asked = stopping.is_set()
    began = time.monotonic()
    stopped = consumption.stop(grace_seconds, leaving)
    if stopped.failure:
        reason, code = judge_failure(stopped.failure)
        report.failed(reason, code)
        return code
    report.stopped(stopped, time.monotonic() - began)
    return ExitCode.OK if asked else ExitCode.FAILED


def _on_signals(stopping: threading.Event, leaving: threading.Event, report: Report) -> None:
    """Let the first signal set one event, and the second the other."""

    def on_signal(_number: int, _frame: object) -> None:
        if stopping.is_set():
            leaving.set()
        else:
            report.stopping()
            stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


def _quiet() -> dict[str, str]:
    """Keep the JVM's log off the terminal: what went wrong is told here, in one line."""
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        return {}
    settings = files("shardline.spark") / "quiet.properties"
    return {
        "spark__ui__showConsoleProgress": "false",
        "spark__driver__extraJavaOptions": f"-Dlog4j2.configurationFile={settings}",
    }
