"""What `shardline run` tells: lines for people on the error stream, or JSON on standard output."""

import re
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import typer

from shardline import errors
from shardline.cli.output import print_json_line
from shardline.cli.program import ExitCode, exit_code_of

if TYPE_CHECKING:
    from shardline.spark.consuming import Stopped
    from shardline.spark.metrics import Metrics

SPARK_DIED = (
    "Spark's Java process has died: look for an error above, or whether memory ran out. What was "
    "not acknowledged comes again"
)
SPARK_STOPPED_TOO = (
    "the signal ended Spark's Java process, too, before the running batch was done: it will be "
    "repeated. Send the signal to shardline alone (systemd: KillMode=mixed)"
)

_ERROR = re.compile(r"(?:[\w.]+\.)?(\w+): (.*)", re.DOTALL)


class Report(Protocol):
    """Tells what a worker does."""

    def started(self, consumer: str, stream: str, app: str | None) -> None:
        """Tell that the query runs."""

    def status(self, metrics: "Metrics") -> None:
        """Tell how it goes."""

    def stopping(self) -> None:
        """Tell that a signal was heard. Called by a signal handler."""

    def stopped(self, stopped: "Stopped", seconds: float) -> None:
        """Tell how it ended."""

    def failed(self, reason: str, code: ExitCode) -> None:
        """Tell why it ended."""


class Prose:
    """For people."""

    def __init__(self, *, leased: bool) -> None:
        self._leased = leased

    def started(self, consumer: str, stream: str, app: str | None) -> None:
        """Tell that the query runs."""
        typer.echo(f"started: {consumer} on {stream} as {app or 'ephemeral'}", err=True)

    def status(self, metrics: "Metrics") -> None:
        """Tell how it goes, in one line."""
        typer.echo(metrics.line(), err=True)

    def stopping(self) -> None:
        """Tell that a signal was heard."""
        typer.echo("stopping after the running batch; once more to leave at once", err=True)

    def stopped(self, stopped: "Stopped", seconds: float) -> None:
        """Tell how it ended."""
        how = "the running batch was broken off and will be repeated"
        if stopped.handed_back:
            how = (
                "every lease handed back, nothing to repeat"
                if self._leased
                else "after a whole batch"
            )
        typer.echo(f"stopped in {seconds:.1f} s: {how}", err=True)

    def failed(self, reason: str, code: ExitCode) -> None:
        """Tell why it ended."""
        del code  # the shell is told
        typer.echo(f"failed: {reason}", err=True)


class JsonLines:
    """For programs: one object a line, of which `event` says what the others mean."""

    def __init__(self, *, leased: bool) -> None:
        self._leased = leased
        self._records = 0
        self._told_at = time.monotonic()

    def started(self, consumer: str, stream: str, app: str | None) -> None:
        """Tell that the query runs."""
        _tell("started", consumer=consumer, stream=stream, app=app)

    def status(self, metrics: "Metrics") -> None:
        """Tell every figure, since the start unless its name says otherwise."""
        figures, now = metrics.read(), time.monotonic()
        rate = (figures.records - self._records) / max(now - self._told_at, 0.001)
        self._records, self._told_at = figures.records, now
        _tell("status", records_per_second=round(rate, 1), **asdict(figures))

    def stopping(self) -> None:
        """Tell that a signal was heard."""
        _tell("stopping")

    def stopped(self, stopped: "Stopped", seconds: float) -> None:
        """Tell how it ended."""
        _tell(
            "stopped",
            seconds=round(seconds, 3),
            handed_back=stopped.handed_back and self._leased,
            repeats=not stopped.handed_back,
        )

    def failed(self, reason: str, code: ExitCode) -> None:
        """Tell why it ended."""
        _tell("failed", reason=reason, exit_code=int(code))


def is_spark_gone(error: BaseException) -> bool:
    """Say whether a call failed because the Java process has ended."""
    return isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"


def judge_failure(failure: str) -> tuple[str, ExitCode]:
    """Return why a query failed, for the command line, and what the shell is told."""
    found = _ERROR.fullmatch(failure)
    kind = getattr(errors, found[1], None) if found else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, errors.ShardlineError):
        return failure, ExitCode.FAILED
    reason = found[2].replace("set failOnDataLoss to false", "pass --go-on-after-gaps")
    return reason, exit_code_of(kind(reason))


def _tell(event: str, **values: object) -> None:
    print_json_line(event=event, at=datetime.now(UTC).isoformat(), **values)
