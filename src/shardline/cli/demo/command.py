"""`shardline demo`: the whole promise on one machine, in about a minute. Nothing is staged."""

import random
import tempfile
import threading
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from shardline.cli.program import ExitCode
from shardline.errors import ConfigurationError


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Fewer reshards and keys, for CI.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the page open afterwards, until Ctrl-C.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random splits and merges.")] = 1,
    pause_seconds: Annotated[
        float, typer.Option(min=0, help="The shortest pause between reshards.")
    ] = 2.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what happens as lines of JSON, the verdict last.")
    ] = False,
) -> None:
    """Read a stream that splits and merges with two Spark workers, kill one, check every record.

    Starts the embedded service, two workers (`shardline run`) and writers of numbered events;
    reshards, kills a worker with kill -9, stops the other as a deployment would, and lets the
    checker count what was lost or out of order. No AWS, no Docker.
    """
    _require_what_it_needs()
    from shardline.cli.demo.screen import screen_for
    from shardline.cli.demo.script import Demo

    with ExitStack() as cleaning:
        folder = Path(cleaning.enter_context(tempfile.TemporaryDirectory(prefix="shardline-demo-")))
        screen = screen_for(as_json=as_json)
        with screen:
            script = Demo(
                cleaning,
                folder,
                screen,
                reshards=4 if fast else 8,
                keys=40 if fast else 200,
                pause_seconds=0.0 if fast else pause_seconds,
            )
            outcome = script.run(random.Random(seed))  # noqa: S311 - which shards, not secrets
        screen.end(outcome)
        if keep:
            screen.keep(script.page_url)
            threading.Event().wait()
        raise typer.Exit(ExitCode.OK if outcome.verdict.kept else ExitCode.FAILED)


def _require_what_it_needs() -> None:
    for module in ("pyspark", "aiohttp"):
        if find_spec(module) is None:
            raise ConfigurationError(
                f"the demo needs {module}, which is not installed: pip install 'shardline[all]'"
            )
