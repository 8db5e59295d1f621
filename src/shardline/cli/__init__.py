"""The command line: one file per command, joined here by one line each."""

from __future__ import annotations

import typer

from shardline.cli.consumers import deregister, list_consumers, register
from shardline.cli.copy import copy
from shardline.cli.dashboard import dashboard
from shardline.cli.demo.command import demo
from shardline.cli.doctor import doctor
from shardline.cli.leases.command import ShowByDefault, release, reset, show
from shardline.cli.leases.exchange import export_leases, import_leases
from shardline.cli.letters.command import list_letters, redrive, show_letter
from shardline.cli.local import local
from shardline.cli.program import Program, example, program
from shardline.cli.run.command import run
from shardline.cli.shards import shards
from shardline.cli.tail import tail

app = typer.Typer(cls=Program, no_args_is_help=True, pretty_exceptions_enable=False)
app.callback(epilog=Program.EXIT_CODES)(program)

_LEASED = "kinesis://orders --app billing --lease-table sqlite:///leases.db"

app.command(epilog=example("shardline demo --keep"))(demo)
app.command(
    epilog=example("shardline run billing:Billing --stream kinesis://orders --app billing")
)(run)
app.command(epilog=example("shardline tail kinesis://orders --since 10m"))(tail)
app.command(epilog=example("shardline copy kinesis://orders kinesis://orders-test --since 1h"))(
    copy
)
app.command(epilog=example("shardline shards kinesis://orders"))(shards)
app.command(epilog=example(f"shardline dashboard --stream {_LEASED}"))(dashboard)
app.command(epilog=example("shardline doctor --stream kinesis://orders"))(doctor)
app.command(epilog=example("shardline local --stream orders:2"))(local)

leases = typer.Typer(cls=ShowByDefault, no_args_is_help=True, pretty_exceptions_enable=False)
leases.command(epilog=example(f"shardline leases {_LEASED}"))(show)
leases.command(epilog=example(f"shardline leases release {_LEASED} --all --dry-run"))(release)
leases.command(epilog=example(f"shardline leases reset {_LEASED} --all --to 2h --dry-run"))(reset)
leases.command("export", epilog=example(f"shardline leases export {_LEASED} > leases.json"))(
    export_leases
)
leases.command(
    "import", epilog=example(f"shardline leases import {_LEASED} --from-kcl billing-kcl --dry-run")
)(import_leases)
app.add_typer(
    leases,
    name="leases",
    help="Owners and checkpoints of the shards; release, reset, export and import.",
    epilog=example(f"shardline leases {_LEASED}"),
)

_LETTERS = "file:///var/lib/billing/letters"
letters = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
letters.command("list", epilog=example(f"shardline letters list {_LETTERS}"))(list_letters)
letters.command("show", epilog=example(f"shardline letters show {_LETTERS} 4951/0"))(show_letter)
letters.command(
    epilog=example(f"shardline letters redrive {_LETTERS} billing:Billing --stream {_LEASED}")
)(redrive)
app.add_typer(
    letters,
    name="letters",
    help="Records that a consumer could not process; list, show and redrive.",
    epilog=example(f"shardline letters list {_LETTERS}"),
)

consumers = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
consumers.command("list", epilog=example("shardline consumers list kinesis://orders"))(
    list_consumers
)
consumers.command(epilog=example("shardline consumers register kinesis://orders billing"))(register)
consumers.command(epilog=example("shardline consumers deregister kinesis://orders billing"))(
    deregister
)
app.add_typer(
    consumers,
    name="consumers",
    help="Registered consumers of enhanced fan-out; list, register and deregister.",
    epilog=example("shardline consumers list kinesis://orders"),
)


def main() -> None:
    """Run the program; the entry point of `shardline`."""
    app(prog_name="shardline")
