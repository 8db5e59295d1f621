"""What `shardline run` prints: lines for people on the error stream, or JSON on standard output."""

import errno
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

import typer

from shardline.cli.output import print_json_line
from shardline.cli.program import ExitCode
from shardline.core.gaps import place_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shardline.consumer.launch import Stopped
    from shardline.consumer.status import Figures
    from shardline.core.positions import Position

_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

SPARK_DIED = (
    "Spark's Java process has died: look for an error above, or whether memory ran out. What was "
    "not acknowledged comes again"
)


class Report(Protocol):
    """Prints what a run does."""

    def started(self, consumer: str, streams: "Sequence[str]", app: str, workers: int) -> None:
        """Report that the workers are being started."""

    def new_app(
        self, app: str, streams: "Sequence[str]", lease_table: str, start: "Position"
    ) -> None:
        """Report that the app has no leases yet, and where it begins."""

    def status(self, now: "Figures") -> None:
        """Report how it goes."""

    def no_status(self, reason: str) -> None:
        """Report why it is not known how it goes."""

    def stopping(self) -> None:
        """Report that a signal came. Called by a signal handler."""

    def stopped_at_start(self) -> None:
        """Report that a signal came before any worker had started. Called by a signal handler."""

    def stopped(self, stopped: "Stopped", seconds: float) -> None:
        """Report how it ended."""

    def failed(self, reason: str, code: ExitCode) -> None:
        """Report why it ended."""


class Prose:
    """For people."""

    def started(self, consumer: str, streams: "Sequence[str]", app: str, workers: int) -> None:
        """Print one line."""
        many = f"{workers} worker" + ("s" if workers > 1 else "")
        _line(f"started: {consumer} on {', '.join(streams)} as {app}, {many}")

    def new_app(
        self, app: str, streams: "Sequence[str]", lease_table: str, start: "Position"
    ) -> None:
        """Print one line."""
        _line(
            f"new app: {app} has no leases on {', '.join(streams)} in {lease_table} and begins at "
            f"{place_text(start)}"
        )

    def status(self, now: "Figures") -> None:
        """Print one line."""
        from shardline.consumer.status import line_of

        _line(line_of(now))

    def no_status(self, reason: str) -> None:
        """Print one line."""
        _line(f"waiting: {reason}")

    def stopping(self) -> None:
        """Print that a signal came."""
        _line("stopping after the deliveries at hand; once more to leave at once")

    def stopped_at_start(self) -> None:
        """Print that nothing had begun."""
        _line("stopped while starting: no lease was taken")

    def stopped(self, stopped: "Stopped", seconds: float) -> None:
        """Print how it ended."""
        how = "deliveries were broken off and will be repeated"
        if stopped.handed_back:
            how = "every lease handed back, nothing to repeat"
        _line(f"stopped in {seconds:.1f} s: {how}")

    def failed(self, reason: str, code: ExitCode) -> None:
        """Print why it ended."""
        del code
        _line(f"failed: {reason}")


class JsonLines:
    """For programs: one object a line, of which `event` says what the others mean."""

    def started(self, consumer: str, streams: "Sequence[str]", app: str, workers: int) -> None:
        """Print the event."""
        _print("started", consumer=consumer, streams=list(streams), app=app, workers=workers)

    def new_app(
        self, app: str, streams: "Sequence[str]", lease_table: str, start: "Position"
    ) -> None:
        """Print the event."""
        place = place_text(start)
        _print("new app", app=app, streams=list(streams), lease_table=lease_table, start=place)

    def status(self, now: "Figures") -> None:
        """Print every figure."""
        _print("status", **asdict(now))

    def no_status(self, reason: str) -> None:
        """Print the event."""
        _print("waiting", reason=reason)

    def stopping(self) -> None:
        """Print that a signal came."""
        _print("stopping")

    def stopped_at_start(self) -> None:
        """Print the event."""
        _print("stopped", seconds=0.0, handed_back=True)

    def stopped(self, stopped: "Stopped", seconds: float) -> None:
        """Print how it ended."""
        _print("stopped", seconds=round(seconds, 3), handed_back=stopped.handed_back)

    def failed(self, reason: str, code: ExitCode) -> None:
        """Print why it ended."""
        _print("failed", reason=reason, exit_code=int(code))


def is_spark_gone(error: BaseException) -> bool:
    """Return true if a call failed because the Java process has ended."""
    return isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"


def _print(event: str, **values: object) -> None:
    with _although_full():
        print_json_line(event=event, at=datetime.now(UTC).isoformat(), **values)


def _line(text: str) -> None:
    with _although_full():
        typer.echo(text, err=True)


@contextmanager
def _although_full() -> "Iterator[None]":
    """Drop a line for which the disk of the output has no room: the run must not end of it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
