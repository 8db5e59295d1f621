"""The command line: one file per command, joined here by one line each."""

from __future__ import annotations

import typer

from shardline.cli.local import local
from shardline.cli.program import Program, example, program
from shardline.cli.shards import shards

app = typer.Typer(cls=Program, no_args_is_help=True, pretty_exceptions_enable=False)
app.callback(epilog=Program.EXIT_CODES)(program)

app.command(epilog=example("shardline shards kinesis://orders"))(shards)
app.command(epilog=example("shardline local --stream orders:2"))(local)


def main() -> None:
    """Run the program: what `shardline` on the command line calls."""
    app(prog_name="shardline")
