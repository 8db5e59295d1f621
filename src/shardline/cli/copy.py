"""`shardline copy`: the records of one stream into another, each key in order."""

import json
import os
import signal
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardline.cli.options import AsJson, EndpointUrl, Profile, Region
from shardline.errors import ConfigurationError, InvalidPosition

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAVE_SECONDS = 1.0
"""Between flushes. What was copied after the last one is copied again after a kill."""


def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="kinesis://NAME, to read.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="kinesis://NAME, to write to.")],
    since: Annotated[
        str, typer.Option(help="trim_horizon, 10m, 2h, an ISO time, or latest.")
    ] = "trim_horizon",
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep the place in this file, and go on there if it exists."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more records, or end at the tip.")
    ] = False,
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Pack small records of a key, as the KPL does.")
    ] = False,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    target_region: Annotated[
        str | None, typer.Option(help="AWS region of the target, if it is another one.")
    ] = None,
    target_endpoint_url: Annotated[
        str | None, typer.Option(help="A server other than AWS, for the target.")
    ] = None,
    profile: Profile = None,
    target_profile: Annotated[
        str | None, typer.Option(help="A profile of your AWS configuration, for the target.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy the records of a stream into another one, every key in order, at least once.

    Splits and merges on either side keep the order. Hash keys that the writers chose themselves
    are not known to readers: a record is written by its partition key. Ctrl-C ends after what is
    read is written; with --token, the next start goes on there.
    """
    from shardline.cli.output import print_json_line
    from shardline.cli.tail import records_of
    from shardline.services.access import Access
    from shardline.services.connection import connect
    from shardline.services.put.stream import connect_to_put
    from shardline.services.put.writer import Writer
    from shardline.services.records import KinesisRecord
    from shardline.streams.stream import open_stream

    for address in (source, target):
        if not address.startswith("kinesis://"):
            raise ConfigurationError(f"{address}: copy reads and writes kinesis://NAME")
    if source == target and (target_region, target_endpoint_url, target_profile) == (None,) * 3:
        raise ConfigurationError(f"{source} would be copied into itself: name another target")
    access = Access(region, endpoint_url, profile)
    target_access = Access(
        target_region or region, target_endpoint_url or endpoint_url, target_profile or profile
    )
    with closing(connect(target, target_access)) as service:
        service.describe()  # a target that is not there is refused also if there is nothing to copy
    progress = _Progress(as_json=as_json)
    with (
        open_stream(source, _position(token, since), access) as records,
        Writer(connect_to_put(target, target_access), aggregate=aggregate) as output,
    ):
        ended = _Signals()
        saved_at = time.monotonic()
        for record in records_of(records, follow=follow):
            if isinstance(record, KinesisRecord):
                output.put(record.partition_key, record.data)
                progress.add(len(record.data), record.arrived_at)
            now = time.monotonic()
            if now - saved_at >= _SAVE_SECONDS or ended.asked:
                output.flush()
                _save(token, records.token)
                progress.print(now)
                saved_at = now
                if ended.asked:
                    break
        output.flush()
        _save(token, records.token)
    progress.print_end()
    if as_json:
        print_json_line(event="copied", records=progress.records, bytes=progress.bytes)


class _Signals:
    """Notes Ctrl-C and SIGTERM, so that what is read is written before the end."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class _Progress:
    """Counts what was copied, and prints it on stderr now and then."""

    def __init__(self, *, as_json: bool) -> None:
        self.records = 0
        self.bytes = 0
        self._as_json = as_json
        self._started_at = time.monotonic()
        self._newest: datetime | None = None

    def add(self, size: int, arrived_at: datetime) -> None:
        self.records += 1
        self.bytes += size
        self._newest = arrived_at

    def print(self, now: float) -> None:
        if self._as_json or self._newest is None:
            return
        rate = self.records / max(now - self._started_at, 1e-3)
        age = (datetime.now(UTC) - self._newest).total_seconds()
        line = f"{self.records:,} records copied, {rate:,.0f} a second, newest {age:,.0f} s old"
        typer.echo(f"\r\033[K{line}" if os.isatty(2) else line, err=True, nl=not os.isatty(2))

    def print_end(self) -> None:
        if not self._as_json:
            typer.echo("\r\033[K" if os.isatty(2) else "", err=True, nl=False)
            typer.echo(f"{self.records:,} records copied, {self.bytes:,} bytes")


def _position(token: Path | None, since: str) -> "str | datetime | Mapping[str, Any]":
    from shardline.cli.since import parse_since

    if token is None or not token.exists():
        return parse_since(since, datetime.now(UTC))
    try:
        place = json.loads(token.read_text())
    except ValueError as error:
        raise InvalidPosition(f"{token} is damaged: {error}. Delete it to begin anew") from None
    return place  # type: ignore[no-any-return]


def _save(file: Path | None, token: "Mapping[str, Any]") -> None:
    if file is None:
        return
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps(token))
    new.replace(file)
