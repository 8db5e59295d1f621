"""What all commands have in common: `--version`, `--debug`, errors in one line, exit codes."""

import os
import re
import signal
import sys
import time
from enum import IntEnum
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

from shardline.errors import (
    ConfigurationError,
    GapError,
    InvalidPosition,
    ServiceError,
    ShardlineError,
)
from shardline.leases.port import TableUnavailable

if TYPE_CHECKING:
    from logging import LogRecord

_ARGUMENT = re.compile(r"\b(region|profile|endpoint_url)=…|\b((?:lease_)?endpoint_url)\b")
_REPEATED_SECONDS = 10.0


class ExitCode(IntEnum):
    """What the shell is told."""

    OK = 0
    FAILED = 1
    USAGE = 2
    SERVICE = 3
    GAP = 4
    INTERRUPTED = 130


_MEANINGS = {
    ExitCode.OK: "fine",
    ExitCode.FAILED: "something was found wrong, or an error of our own",
    ExitCode.USAGE: "wrong option, address, position or credentials",
    ExitCode.SERVICE: "the service or the lease table refused, or did not answer",
    ExitCode.GAP: "records are gone that were not read",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}


def exit_code_of(error: ShardlineError) -> ExitCode:
    """Return what the shell is told about an error."""
    match error:
        case ConfigurationError() | InvalidPosition():
            return ExitCode.USAGE
        case ServiceError() | TableUnavailable():
            return ExitCode.SERVICE
        case GapError():
            return ExitCode.GAP
    return ExitCode.FAILED


def example(*lines: str) -> str:
    """Write the epilog of a command's help: lines to copy and run."""
    return "[bold]Example[/bold]  " + "\n\n".join(lines)


def for_command_line(error: object) -> str:
    """Write an error in one line, with options where the library's speaks of arguments."""
    line = " ".join(str(error).split()).replace("option startingPosition: ", "--start: ")
    line = line.replace(" or role_arn=…", "")  # which no command has
    if line.startswith("the lease table "):
        line = line.replace("endpoint_url", "lease_endpoint_url")
    return _ARGUMENT.sub(_option, line)


def _option(found: re.Match[str]) -> str:
    name = (found[1] or found[2]).replace("_", "-")
    return f"--{name} …" if found[1] else f"--{name}"


def say_error(error: object) -> None:
    """Write one line to the error stream."""
    typer.secho(f"error: {for_command_line(error)}", err=True, fg=typer.colors.RED)


class Program(TyperGroup):
    """The commands as one program: an error of ours is one line, never a traceback."""

    EXIT_CODES: ClassVar[str] = "[bold]Exit codes[/bold]  " + " · ".join(
        f"[bold]{code.value}[/bold] {meaning}" for code, meaning in _MEANINGS.items()
    )

    def main(self, args: Any = None, prog_name: Any = None, *rest: Any, **more: Any) -> Any:
        """Run as a program: a mistake in what was typed is one line, too."""
        if not more.pop("standalone_mode", True):
            return super().main(args, prog_name, *rest, **{**more, "standalone_mode": False})
        try:
            code = super().main(args, prog_name, *rest, **{**more, "standalone_mode": False})
        except typer.Abort:
            say_error("nothing was done: it was not confirmed. With --yes it is not asked")
            code = ExitCode.FAILED
        except Exception as error:
            if not hasattr(error, "format_message"):  # which usage errors of every typer have
                raise
            code = _explain(error)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except ShardlineError as error:
            if ctx.params.get("debug"):
                raise
            say_error(error)
            raise typer.Exit(exit_code_of(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output (`| head`) has gone: that is its right, and no error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(128 + signal.SIGPIPE) from None


def _explain(usage_error: Any) -> int:
    context = getattr(usage_error, "ctx", None)
    if type(usage_error).__name__ == "NoArgsIsHelpError":
        usage_error.show()
    else:
        see = f" See: {context.command_path} --help" if context else ""
        say_error(f"{usage_error.format_message().rstrip('.?')}.{see}")
    return ExitCode.USAGE


class _Sparing:
    """Lets a line through once in a while: a retry a second is worth one, and not ten."""

    def __init__(self) -> None:
        self._said_at: dict[tuple[str, str], float] = {}

    def filter(self, record: "LogRecord") -> bool:
        """Say whether a line is new, or was not said of late. A line is known by its subject."""
        first = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        line, now = (record.msg, first), time.monotonic()
        if now - self._said_at.get(line, -_REPEATED_SECONDS) < _REPEATED_SECONDS:
            return False
        self._said_at[line] = now
        record.msg, record.args = for_command_line(record.getMessage()), None
        return True


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shardline {version('shardline')}")
        raise typer.Exit


def program(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, and what is logged.")
    ] = False,
) -> None:
    """Read streams that split and merge, every key in order, nothing lost."""
    del show_version  # its callback has done it
    import logging

    root = logging.getLogger()
    if not root.handlers:  # inside another program its own are right
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        root.addHandler(handler)
        root.setLevel(logging.DEBUG if debug else logging.WARNING)
        if not debug:
            handler.addFilter(_Sparing())
    if debug:
        # Signed requests and whole bodies are not ours to print.
        logging.getLogger("botocore").setLevel(logging.INFO)
        logging.getLogger("urllib3").setLevel(logging.INFO)
