"""`shardline run`: a consumer on Spark, sharing its stream with the other workers of its app."""

import importlib
import logging
import signal
import sys
import threading
import time
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shardline.cli.options import EndpointUrl, Place, Profile, Region
from shardline.cli.program import ExitCode
from shardline.cli.run_report import JsonLines, Prose, Report, judge_failure
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shardline.spark.consumer import ShardConsumer


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
    from shardline.cli.run_checks import require_metrics, require_stream, require_table
    from shardline.spark.consuming import DEFAULT_LEASE_TABLE, consume
    from shardline.spark.session import session

    place = Place(region=region, endpoint_url=endpoint_url, profile=profile)
    # What is wrong is said now, and not after Spark has taken its seconds to start.
    require_metrics(metrics_port)
    require_stream(stream, place)
    if not ephemeral:
        lease_place = Place(region=region, endpoint_url=lease_endpoint_url, profile=profile)
        require_table(lease_table or DEFAULT_LEASE_TABLE, lease_place)
    report: Report = JsonLines() if as_json else Prose()
    stopping, leaving = threading.Event(), threading.Event()

    def start_spark() -> "SparkSession":
        spark = session(f"shardline {app or 'ephemeral'}", master, **_quiet())
        _on_signals(
            stopping, leaving, report
        )  # after Spark, which takes Ctrl-C for "cancel all jobs"
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
        raise typer.Exit(code)
    report.stopped(stopped, time.monotonic() - began, leased=not ephemeral)
    raise typer.Exit(ExitCode.OK if asked else ExitCode.FAILED)


def load_consumer(text: str) -> "ShardConsumer":
    """Import MODULE:CONSUMER from here or the Python path, and make an instance of a class."""
    module_name, colon, attribute = text.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigurationError(f"{text!r}: write MODULE:CONSUMER, for example billing:Billing")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(text, module_name)
    found: Any = getattr(module, attribute, None)
    if found is None:
        raise ConfigurationError(f"{text!r}: {module_name} has no {attribute}{_offer(module)}")
    from shardline.spark.consumer import ShardConsumer

    if isinstance(found, type) and issubclass(found, ShardConsumer):
        try:
            found = found()
        except Exception as error:
            raise ConfigurationError(
                f"{text!r} cannot be made without arguments ({_said(error)}): name an instance of "
                "it that the module has"
            ) from error
    if not isinstance(found, ShardConsumer):
        raise ConfigurationError(f"{text!r} is not a shardline.ShardConsumer: subclass that")
    from pyspark import cloudpickle

    # By value: executors elsewhere have no file of this name.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return found


def _import(text: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name in {module_name, module_name.partition(".")[0]}:
            raise ConfigurationError(
                f"{text!r}: there is no {module_name} in this folder or on the Python path"
            ) from error
        raise ConfigurationError(
            f"{text!r}: {module_name} needs {error.name}, which is not installed"
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"{text!r}: importing {module_name} failed with {_said(error)}; `shardline --debug run "
            "…` shows where"
        ) from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _offer(module: ModuleType) -> str:
    from shardline.spark.consumer import ShardConsumer

    kinds = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, ShardConsumer)
        and value is not ShardConsumer
    ]
    return f": did you mean {' or '.join(kinds)}?" if kinds else ", and no other ShardConsumer"


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
