"""The command line: one file per command, joined here."""

from __future__ import annotations

import typer

main = typer.Typer(no_args_is_help=True, help="Read resharding streams in order.")
