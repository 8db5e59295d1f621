"""What all commands share: `--version`, `--debug`, errors in one line, exit codes."""

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
    optional_import,
)
from shardline.leases.port import TableUnavailable

if TYPE_CHECKING:
    from logging import LogRecord

_ARGUMENT = re.compile(r"\b(region|profile|endpoint_url|app)=…|\b((?:lease_)?endpoint_url)\b")
_PLAIN_WORDS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "write a whole number",
    "Input should be a valid number, unable to parse string as a number": "write a number",
    "Input should be ": "it must be ",
}
_REPEATED_SECONDS = 10.0


class ExitCode(IntEnum):
    """The exit codes of the program."""

    OK = 0
    FAILED = 1
    USAGE = 2
    SERVICE = 3
    GAP = 4
    INTERRUPTED = 130


_MEANINGS = {
    ExitCode.OK: "success",
    ExitCode.FAILED: "a check failed, or an internal error",
    ExitCode.USAGE: "wrong option, address, position or credentials",
    ExitCode.SERVICE: "the service or the lease table refused, or did not answer",
    ExitCode.GAP: "records expired before they were read",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}


def exit_code_of(error: ShardlineError) -> ExitCode:
    """Return the exit code for an error."""
    match error:
        case ConfigurationError() | InvalidPosition():
            return ExitCode.USAGE
        case ServiceError() | TableUnavailable():
            return ExitCode.SERVICE
        case GapError():
            return ExitCode.GAP
    return ExitCode.FAILED


def example(*lines: str) -> str:
    """Return the epilog of a command's help: example lines to copy and run."""
    return "[bold]Example[/bold]  " + "\n\n".join(lines)


def with_option_names(error: object) -> str:
    """Return a message in one line, with the names of arguments replaced by those of options."""
    line = " ".join(str(error).split()).replace("option startingPosition: ", "--start: ")
    line = line.replace(" or role_arn=…", "")  # no command has this option
    if line.startswith("the lease table "):
        line = line.replace("endpoint_url", "lease_endpoint_url")
    return _ARGUMENT.sub(_option, line)


def _option(found: re.Match[str]) -> str:
    name = (found[1] or found[2]).replace("_", "-")
    return f"--{name} …" if found[1] else f"--{name}"


def print_error(error: object) -> None:
    """Print an error as one line on stderr."""
    typer.secho(f"error: {with_option_names(error)}", err=True, fg=typer.colors.RED)


class Program(TyperGroup):
    """The command group: prints a `ShardlineError` as one line, without a traceback."""

    EXIT_CODES: ClassVar[str] = "[bold]Exit codes[/bold]  " + " · ".join(
        f"[bold]{code.value}[/bold] {meaning}" for code, meaning in _MEANINGS.items()
    )

    def main(self, args: Any = None, prog_name: Any = None, *rest: Any, **more: Any) -> Any:
        """Run as a program; a usage error is printed as one line, too."""
        if not more.pop("standalone_mode", True):
            return super().main(args, prog_name, *rest, **{**more, "standalone_mode": False})
        try:
            code = super().main(args, prog_name, *rest, **{**more, "standalone_mode": False})
        except typer.Abort:
            print_error("not confirmed, nothing was done. --yes skips the question")
            code = ExitCode.FAILED
        except Exception as error:
            if not hasattr(error, "format_message"):  # only usage errors of typer have it
                raise
            code = _explain(error)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            with optional_import(f"shardline {ctx.invoked_subcommand}"):
                return super().invoke(ctx)
        except ShardlineError as error:
            if ctx.params.get("debug"):
                raise
            print_error(error)
            raise typer.Exit(exit_code_of(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of the output (`| head`) has closed the pipe, which is not an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(128 + signal.SIGPIPE) from None


def _explain(usage_error: Any) -> int:
    context = getattr(usage_error, "ctx", None)
    if type(usage_error).__name__ == "NoArgsIsHelpError":
        usage_error.show()
    else:
        see = f" See: {context.command_path} --help" if context else ""
        message = usage_error.format_message()
        for words, plain in _PLAIN_WORDS.items():
            message = message.replace(words, plain)
        message = message.rstrip(".")
        print_error(f"{message}{'' if message.endswith('?') else '.'}{see}")
    return ExitCode.USAGE


class _RepeatFilter:
    """Drops log lines that were printed in the last seconds: ten retries are worth one line."""

    def __init__(self) -> None:
        self._printed_at: dict[tuple[str, str], float] = {}

    def filter(self, record: "LogRecord") -> bool:
        """Return true if a line should be printed. Lines with the same first argument are equal."""
        first = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        line, now = (record.msg, first), time.monotonic()
        if now - self._printed_at.get(line, -_REPEATED_SECONDS) < _REPEATED_SECONDS:
            return False
        self._printed_at[line] = now
        record.msg, record.args = with_option_names(record.getMessage()), None
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
        bool, typer.Option("--debug", help="Show the traceback of an error, and the log.")
    ] = False,
) -> None:
    """Read streams that split and merge: every key in order, nothing lost."""
    del show_version  # handled by its callback
    import logging

    root = logging.getLogger()
    if not root.handlers:  # another program that embeds this has its own
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        root.addHandler(handler)
        root.setLevel(logging.DEBUG if debug else logging.WARNING)
        if not debug:
            handler.addFilter(_RepeatFilter())
    if debug:
        # They would print signed requests and whole bodies.
        logging.getLogger("botocore").setLevel(logging.INFO)
        logging.getLogger("urllib3").setLevel(logging.INFO)
