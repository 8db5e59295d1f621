"""Writes docs/cli.md from the commands themselves: python tools/cli_reference.py docs/cli.md."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from shardline.cli import app
from shardline.cli.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENING: Final = """\
# Command line

<!-- Made from the commands themselves by tools/cli_reference.py, which `make docs` runs. -->

`shardline COMMAND --help` says the same, and ends with an example. An error is one line on the
error stream; `shardline --debug COMMAND …` shows its traceback. `shardline --install-completion`
teaches your shell the commands. Every command has `--json`: [what it prints](json.md).

Region, endpoint and credentials come from the usual AWS environment and files unless they are
given: `AWS_REGION` or `AWS_DEFAULT_REGION`, `AWS_PROFILE`, `AWS_ENDPOINT_URL_KINESIS`, … A server
on this machine (`--endpoint-url http://127.0.0.1:4567`) needs neither region nor credentials.
"""


def reference() -> str:
    """Return the whole page."""
    program: Any = typer.main.get_command(app)
    codes = re.findall(r"(\d+)\[/bold\] ([^·]+)", Program.EXIT_CODES)
    exits = ["| exit code | meaning |", "|---|---|"]
    exits += [f"| {code} | {meaning.strip()} |" for code, meaning in codes]
    parts = [_OPENING, *exits, ""]
    for name, command in program.commands.items():
        parts += _section(f"shardline {name}", command, level=2)
    return "\n".join(parts).rstrip() + "\n"


def _section(path: str, command: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {path}\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    if examples := re.findall(r"shardline .+", command.epilog or ""):
        yield "\n".join(("```shell", *examples, "```", ""))
    if subcommands := getattr(command, "commands", None):
        for name, each in subcommands.items():
            yield from _section(f"{path} {name}", each, level + 1)
        return
    yield "| | | default |"
    yield "|---|---|---|"
    for parameter in command.params:
        yield _row(parameter)
    yield ""


def _row(parameter: Any) -> str:
    default = parameter.default
    if parameter.required:
        shown = "required"
    elif isinstance(text := getattr(parameter, "show_default", None), str):
        shown = text
    elif default in (None, False, (), []):
        shown = ""
    else:
        shown = f"`{getattr(default, 'value', default)}`"
    names = [parameter.metavar or parameter.name.upper()]
    if parameter.param_type_name == "option":
        names = [*parameter.opts, *parameter.secondary_opts]
    written = ", ".join(f"`{name}`" for name in names)
    return f"| {written} | {(parameter.help or '').replace('|', '&#124;')} | {shown} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
