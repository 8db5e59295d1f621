"""`shardline consumers`: the registered consumers of enhanced fan-out."""

from typing import TYPE_CHECKING, Annotated

import typer

from shardline.cli.options import AsJson, EndpointUrl, Profile, Region
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from shardline.services.fan_out.consumers import StreamConsumers

Stream = Annotated[
    str, typer.Argument(metavar="STREAM", help="kinesis://NAME, or kinesis:// and its ARN.")
]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The consumer, as in `shardline run --fan-out NAME`."),
]


def list_consumers(
    stream: Stream,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """List the registered consumers of a stream. Each costs money for each shard and hour."""
    from shardline.cli.output import print_json, wide_console

    with _consumers(stream, region, endpoint_url, profile) as consumers:
        found = sorted(consumers.list(), key=lambda consumer: consumer.name)
    if as_json:
        print_json({"stream": stream, "consumers": found})
        return
    console = wide_console()
    for consumer in found:
        since = consumer.created_at.isoformat(sep=" ", timespec="seconds")
        console.print(f"{consumer.name}  {consumer.status}  since {since}  {consumer.arn}")
    if not found:
        console.print(f"{stream} has no registered consumers")


def register(
    stream: Stream,
    name: Name,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Register a consumer and wait until it is ACTIVE. It costs money until it is deregistered.

    AWS charges for each shard and hour that a consumer is registered, whether it reads or not, and
    for each GB that is pushed to it. `shardline run --fan-out NAME` registers by itself.
    """
    from shardline.cli.output import print_json_line

    with _consumers(stream, region, endpoint_url, profile) as consumers:
        registered = consumers.ensure(name)
    if as_json:
        print_json_line(event="registered", stream=stream, consumer=name, new=registered)
        return
    typer.echo(f"{name} is {'now registered' if registered else 'registered already'} and ACTIVE")


def deregister(
    stream: Stream,
    name: Name,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Deregister a consumer. Workers that use it go on by polling; no record is lost."""
    from shardline.cli.output import print_json_line

    with _consumers(stream, region, endpoint_url, profile) as consumers:
        if not consumers.deregister(name):
            raise ConfigurationError(
                f"{stream} has no consumer {name!r}: `shardline consumers list {stream}` lists them"
            )
    if as_json:
        print_json_line(event="deregistered", stream=stream, consumer=name)
        return
    typer.echo(f"{name} is deregistered")


def _consumers(
    stream: str, region: str | None, endpoint_url: str | None, profile: str | None
) -> "AbstractContextManager[StreamConsumers]":
    from shardline.services.access import Access
    from shardline.services.fan_out.registration import consumers_of

    return consumers_of(stream, Access(region=region, endpoint_url=endpoint_url, profile=profile))
