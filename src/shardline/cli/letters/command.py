"""`shardline letters`: list what consumers could not process, show one, and process them again."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from shardline.cli.leases.command import AppName, DryRun, TableAddress, Yes
from shardline.cli.options import AsJson, EndpointUrl, LeaseEndpointUrl, Profile, Region
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from shardline.consumer.letters.letter import Assembly
    from shardline.services.access import Access

Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", help="file:///FOLDER, kinesis://STREAM or dynamodb://TABLE, as in `to`."
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="How many letters to list.")]
Keys = Annotated[
    list[str] | None, typer.Option("--key", help="Only the letters of this key; may be repeated.")
]


def list_letters(
    place: Place,
    limit: Limit = 50,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """List the letters that wait, with their reasons."""
    from shardline.cli.letters.report import render_list, summary_of
    from shardline.cli.output import print_json, wide_console
    from shardline.services.access import Access

    found = _read(place, Access(region=region, endpoint_url=endpoint_url, profile=profile))
    if as_json:
        print_json({"place": place, **summary_of(found, limit)})
    else:
        render_list(found, limit, wide_console())


def show_letter(
    place: Place,
    letter: Annotated[
        str, typer.Argument(metavar="LETTER", help="Its id, or the end of it: SEQUENCE/0.")
    ],
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Show one letter with its payload."""
    from shardline.cli.letters.report import as_values, render_letter
    from shardline.cli.output import print_json, wide_console
    from shardline.services.access import Access

    found = _read(place, Access(region=region, endpoint_url=endpoint_url, profile=profile))
    matching = [x for x in found.letters() if x.id == letter]
    matching = matching or [x for x in found.letters() if x.id.endswith("/" + letter)]
    if len(matching) != 1:
        many = "several letters" if matching else "no letter"
        raise ConfigurationError(
            f"{place} has {many} {letter!r}: `shardline letters list {place}` has their ids"
        )
    if as_json:
        print_json(as_values(matching[0], payload=True))
    else:
        render_letter(matching[0], wide_console())


def redrive(
    place: Place,
    consumer: Annotated[
        str, typer.Argument(metavar="MODULE:CONSUMER", help="The consumer to process them with.")
    ],
    stream: Annotated[
        str, typer.Option(help="The stream whose records they are: kinesis://NAME or dynamodb://…")
    ],
    app: AppName,
    lease_table: TableAddress,
    keys: Keys = None,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Process letters again, in order for each key, and unpark the keys of which none is left.

    The leases of their shards are taken for as long as it runs, so that no worker processes them
    meanwhile; workers take them back by themselves. A letter that fails again stays, and the
    later ones of its key with it.
    """
    from shardline.cli.leases.tables import open_lease_table
    from shardline.cli.letters.redrive_plan import RedrivePlan
    from shardline.cli.run.consumer import load_consumer
    from shardline.services.access import Access

    access = Access(region=region, endpoint_url=endpoint_url, profile=profile)
    loaded = load_consumer(consumer)
    with open_lease_table(app, lease_table, access, lease_endpoint_url) as table:
        plan = RedrivePlan(place, access, stream, app, table, frozenset(keys) if keys else None)
        plan.print_out(dry_run=dry_run, as_json=as_json)
        if dry_run or plan.empty:
            return
        if not yes:
            typer.confirm(f"Process {plan.letters} letters again?", abort=True, err=True)
        if not plan.carry_out(loaded, as_json=as_json):
            raise typer.Exit(1)


def _read(place: str, access: "Access") -> "Assembly":
    from shardline.observation.dead_letter_reader import open_letters

    with closing(open_letters(place, access)) as reader:
        return reader.read_all()
