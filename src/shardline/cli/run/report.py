"""What `shardline run` prints: lines for people on the error stream, or JSON on standard output."""

import errno
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from shardline.cli.output import print_json_line
from shardline.cli.program import ExitCode
from shardline.core.gaps import place_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.consumer.launch import Stopped
    from shardline.consumer.status import Figures
    from shardline.core.positions import Position

_NO_PLACE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""A full disk, or a terminal that was closed."""

SPARK_DIED = (
    "Spark's Java process has died: look for an error above, or whether memory ran out. What was "
    "not acknowledged comes again"
)


class Report:
    """Prints each event of a run: as one line of text, or as one object of JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def started(self, consumer: str, streams: "Sequence[str]", app: str, workers: int) -> None:
        """Report that the workers are being started."""
        many = f"{workers} worker" + ("s" if workers > 1 else "")
        text = f"started: {consumer} on {', '.join(streams)} as {app}, {many}"
        self._print(
            "started", text, consumer=consumer, streams=list(streams), app=app, workers=workers
        )

    def new_app(
        self, app: str, streams: "Sequence[str]", lease_table: str, start: "Position"
    ) -> None:
        """Report that the app has no leases yet, and where it begins."""
        names, place = ", ".join(streams), place_text(start)
        text = f"new app: {app} has no leases on {names} in {lease_table} and begins at {place}"
        self._print(
            "new app", text, app=app, streams=list(streams), lease_table=lease_table, start=place
        )

    def status(self, now: "Figures") -> None:
        """Report every figure."""
        from shardline.consumer.status import line_of

        self._print("status", line_of(now), **asdict(now))

    def no_status(self, reason: str) -> None:
        """Report why there are no figures."""
        self._print("waiting", f"waiting: {reason}", reason=reason)

    def stopping(self) -> None:
        """Report that a signal came. Called by a signal handler."""
        self._print(
            "stopping", "stopping after the running deliveries; signal again to end at once"
        )

    def stopped_at_start(self) -> None:
        """Report that a signal came before any worker had started. Called by a signal handler."""
        text = "stopped while starting: no lease was taken"
        self._print("stopped", text, seconds=0.0, handed_back=True)

    def stopped(self, stopped: "Stopped", seconds: float) -> None:
        """Report how the run ended."""
        how = "not everything was handed back, and what was broken off is repeated"
        if stopped.handed_back:
            how = "every lease handed back, nothing to repeat"
        self._print(
            "stopped",
            f"stopped in {seconds:.1f} s: {how}",
            seconds=round(seconds, 3),
            handed_back=stopped.handed_back,
        )

    def failed(self, reason: str, code: ExitCode) -> None:
        """Report why the run ended."""
        self._print("failed", f"failed: {reason}", reason=reason, exit_code=int(code))

    def _print(self, event: str, text: str, **values: object) -> None:
        try:
            if self._as_json:
                print_json_line(event=event, at=datetime.now(UTC).isoformat(), **values)
            else:
                typer.echo(text, err=True)
        except OSError as error:
            if error.errno not in _NO_PLACE:  # the run goes on without its lines
                raise


def is_spark_gone(error: BaseException) -> bool:
    """Return true if a call failed because the Java process has ended."""
    return isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"


def first_line(error: BaseException) -> str:
    """Return the first line of an error; of an error in Java, that of its message."""
    java = getattr(error, "java_exception", None)
    return str(error if java is None else java.getMessage()).strip().partition("\n")[0].rstrip(".")
