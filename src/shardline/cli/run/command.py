"""`shardline run`: a consumer that shares its streams with the other workers of its app."""

import logging
import threading
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from shardline.cli.options import EndpointUrl, LeaseEndpointUrl, Profile, Region
from shardline.cli.program import ExitCode
from shardline.cli.run.consumer import import_from_here, load_consumer
from shardline.cli.run.report import SPARK_DIED, Report, first_line, is_spark_gone
from shardline.cli.run.signals import Signals, before_leaving, leave_at_once
from shardline.errors import ConfigurationError, ShardlineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.consumer.job import Job
    from shardline.consumer.launch import RunningConsumer

Engine = Literal["spark", "process"]

_POLL_SECONDS: Final = 0.1


def run(
    consumer: Annotated[
        str, typer.Argument(metavar="MODULE:CONSUMER", help="A ShardConsumer, or an instance.")
    ],
    stream: Annotated[
        list[str], typer.Option(help="kinesis://NAME or dynamodb://TABLE; may be repeated.")
    ],
    app: Annotated[
        str | None, typer.Option(help="Workers of the same app share the streams.")
    ] = None,
    lease_table: Annotated[
        str | None,
        typer.Option(
            help="sqlite:///FILE (one machine), postgresql://HOST/DATABASE or dynamodb://TABLE.",
            show_default="sqlite:///shardline-leases.db",
        ),
    ] = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    engine: Annotated[
        Engine,
        typer.Option(help="spark: each Spark task is a worker. process: here, without Spark."),
    ] = "spark",
    tasks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many workers to start; needed on a cluster.",
            show_default="the cores of a local master; 1 for --engine process",
        ),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    name: Annotated[
        str | None, typer.Option(help="A name for this run, as leases and dashboard show it.")
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            help="Where a new app begins: trim_horizon, latest, an ISO time, or snapshot (the "
            "items of a table first)."
        ),
    ] = "trim_horizon",
    expect_app: Annotated[
        bool,
        typer.Option("--expect-app", help="Refuse an app that has no leases in the table yet."),
    ] = False,
    ephemeral: Annotated[
        bool,
        typer.Option("--ephemeral", help="Start at latest, and keep no checkpoints."),
    ] = False,
    fan_out: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Have the shards pushed (enhanced fan-out, which costs money) to the consumer "
            "NAME, one for each app; it is registered if it is missing.",
        ),
    ] = None,
    lease_seconds: Annotated[
        float, typer.Option(min=3, help="How long a silent worker keeps its shards.")
    ] = 10,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="How often a shard's checkpoint is written, at most.")
    ] = 5,
    batch_records: Annotated[
        int, typer.Option(min=1, help="The most records in one call of `process`.")
    ] = 10_000,
    stall_seconds: Annotated[
        float,
        typer.Option(min=1, help="A call of `process` that takes longer is abandoned."),
    ] = 600,
    go_on_after_gaps: Annotated[
        bool,
        typer.Option(
            "--go-on-after-gaps",
            help="Where records expired unread, record the gap and go on, instead of halting.",
        ),
    ] = False,
    grace_seconds: Annotated[
        float,
        typer.Option(min=0, help="How long running deliveries may take after a signal."),
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
            help="Print a line of JSON for each event: started, status, waiting, stopping, "
            "stopped, failed.",
        ),
    ] = False,
) -> None:
    """Run a consumer until Ctrl-C or SIGTERM. Start it again anywhere, and the two share the work.

    The first signal waits for the running deliveries, writes their checkpoints and releases every
    lease; so does closing the terminal, unless it runs under nohup. A second signal ends the
    process at once: the next owners repeat those deliveries.
    """
    report = Report(as_json=as_json)
    signals = Signals(report)
    import_from_here()
    start_workers = _start_in_spark if engine == "spark" else _starter_here()
    loaded = load_consumer(consumer)
    from shardline.cli.run.checks import require_metrics, require_stream, require_table
    from shardline.consumer.launch_options import job_of
    from shardline.consumer.temporary_folder import delete_folders
    from shardline.tables.consumers import change_reader

    before_leaving(delete_folders)
    job = job_of(
        loaded,
        _pickle_for(engine),
        streams=tuple(stream),
        app=app,
        name=name,
        lease_table=lease_table,
        lease_endpoint_url=lease_endpoint_url,
        start=start,
        ephemeral=ephemeral,
        expect_app=expect_app,
        fan_out=fan_out,
        lease_seconds=lease_seconds,
        checkpoint_seconds=checkpoint_seconds,
        batch_records=batch_records,
        stall_seconds=stall_seconds,
        stop_seconds=max(1.0, grace_seconds - 1),
        go_on_after_gaps=go_on_after_gaps,
        region=region,
        endpoint_url=endpoint_url,
        profile=profile,
        change_of=change_reader(loaded, stream),
    )
    require_metrics(metrics_port)
    for source in job.streams:
        require_stream(source)
    require_table(job.leases)
    try:
        running = start_workers(job, tasks, master)
    except Exception as error:
        if is_spark_gone(error):
            raise ConfigurationError(SPARK_DIED) from error
        raise
    signals.workers_started()
    if metrics_port is not None:
        from shardline.consumer.status import serve

        serve(metrics_port, running.figures)
    report.started(consumer, stream, job.app, running.workers)
    if running.new_streams:
        report.new_app(job.app, running.new_streams, job.leases.name, job.start)
    code = _follow(running, report, status_seconds, signals, grace_seconds)
    # Spark's own threads and the JVM may take seconds to end; every lease is given back by now.
    leave_at_once(code)


def _pickle_for(engine: Engine) -> "Callable[[object], bytes]":
    if engine == "spark":
        from shardline.spark.workers import with_its_module

        return with_its_module
    import pickle

    return pickle.dumps


def _start_in_spark(job: "Job", tasks: int | None, master: str) -> "RunningConsumer":
    from shardline.spark.session import session
    from shardline.spark.temporary_files import TemporaryFiles
    from shardline.spark.workers import start_workers

    temporary = TemporaryFiles()
    before_leaving(temporary.delete)
    settings = _settings(temporary.java_options())
    with temporary.for_python():
        try:
            spark = session(f"shardline {job.app}", master=master, **settings)
        except Exception as error:
            if isinstance(error, ShardlineError) or is_spark_gone(error):
                raise
            raise ConfigurationError(
                f"Spark did not start at {master} ({first_line(error)}): check --master; "
                "`shardline --debug run …` shows Spark's log"
            ) from error
    return start_workers(spark, job, tasks)


def _starter_here() -> "Callable[[Job, int | None, str], RunningConsumer]":
    """Return what starts workers in this process; the runner of the first is started now."""
    from shardline.consumer.link import RunnerProcesses

    ahead = RunnerProcesses()

    def start(job: "Job", tasks: int | None, _master: str) -> "RunningConsumer":
        from shardline.consumer.keeper import keep
        from shardline.consumer.launch import RunningConsumer

        stopping = threading.Event()

        def place(job: "Job", index: int, attempt: int) -> None:
            runners = ahead if (index, attempt) == (0, 0) else None
            keep(job, index, attempt, leave=stopping.is_set, runners=runners)

        return RunningConsumer(job, tasks or 1, place, stopping=stopping)

    return start


def _follow(
    running: "RunningConsumer",
    report: Report,
    status_seconds: float,
    signals: Signals,
    grace_seconds: float,
) -> ExitCode:
    """Print what is going on until the run ends, by itself or by a signal."""
    ended = threading.Event()
    # In a thread of its own: a stop does not wait for a table that does not answer.
    arguments = (running, report, status_seconds, ended)
    threading.Thread(target=_print_status, args=arguments, name="status", daemon=True).start()
    while running.running and not signals.stopping.wait(_POLL_SECONDS):
        pass
    ended.set()
    asked = signals.stopping.is_set()
    began = time.monotonic()
    stopped = running.stop(grace_seconds, signals.leaving)
    if stopped.failure:
        report.failed(stopped.failure, ExitCode.USAGE)
        return ExitCode.USAGE
    report.stopped(stopped, time.monotonic() - began)
    return ExitCode.OK if asked else ExitCode.FAILED


def _print_status(
    running: "RunningConsumer", report: Report, status_seconds: float, ended: threading.Event
) -> None:
    """Print the status every few seconds, until the run ends."""
    while not ended.wait(status_seconds):
        try:
            figures = running.figures()
        except ShardlineError as error:  # the workers wait for the table too
            if not ended.is_set():
                report.no_status(str(error))
        else:
            if not ended.is_set():
                report.status(figures)


def _settings(java_options: str) -> dict[str, str]:
    """Return Spark's settings: the log stays off the terminal, errors are reported in one line."""
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        return {"spark__driver__extraJavaOptions": java_options} if java_options else {}
    settings = files("shardline.spark") / "quiet.properties"
    return {
        "spark__ui__showConsoleProgress": "false",
        "spark__driver__extraJavaOptions": (
            f"-Dlog4j2.configurationFile={settings} {java_options}".strip()
        ),
    }
