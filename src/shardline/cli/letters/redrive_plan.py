"""What `shardline letters redrive` would do, and doing it."""

import copy
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from shardline.cli.output import print_json, printable
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.consumer.consumer import ShardConsumer
    from shardline.consumer.letters.letter import Letter
    from shardline.leases.port import LeaseTable
    from shardline.services.access import Access


class RedrivePlan:
    """The letters of one app and stream, and the shards to hold while they are processed."""

    def __init__(
        self,
        place: str,
        access: "Access",
        stream: str,
        app: str,
        table: "LeaseTable",
        keys: frozenset[str] | None,
    ) -> None:
        from shardline.consumer.letters.redrive import holders_of
        from shardline.observation.observation import read_all_rows
        from shardline.services.addresses import parse_address

        self._place, self._access, self._table, self._stream = place, access, table, stream
        self._app, self._stream_name = app, parse_address(stream).stream_name
        self._keys = keys
        self._rows = {row.shard_id: row for row in read_all_rows(table, app, self._stream_name)}
        if not self._rows:
            raise ConfigurationError(f"there are no leases of {app!r} on {stream}: check --app")
        parked = table.read_parked_keys(app, self._stream_name, tuple(self._rows))
        self._parked = {row.key for row in parked if keys is None or row.key in keys}
        selected = [letter for letter in self._read() if keys is None or letter.key in keys]
        self.letters = len(selected)
        shard_ids = {letter.shard_id for letter in selected}
        shard_ids |= {row.shard_id for row in parked if row.key in self._parked}
        self._shards = sorted(holders_of(shard_ids, self._rows))
        self._letter_keys = {letter.key for letter in selected}

    @property
    def empty(self) -> bool:
        """True if there is nothing to process and nothing to unpark."""
        return not self.letters and not self._parked

    def print_out(self, *, dry_run: bool, as_json: bool) -> None:
        """Print what is going to be done."""
        if as_json:
            if dry_run or self.empty:
                print_json(
                    {
                        "done": False,
                        "letters": self.letters,
                        "keys": len(self._letter_keys),
                        "parked_keys": len(self._parked),
                        "shards": self._shards,
                    }
                )
            return
        if self.empty:
            typer.echo("nothing to do: no letters wait, and no keys are parked")
            return
        would = "would " if dry_run else ""
        typer.echo(f"{would}process {self.letters} letters of {len(self._letter_keys)} keys")
        if self._parked:
            typer.echo(f"{would}unpark {len(self._parked)} keys, as far as no letter is left")
        if self._shards:
            typer.echo(f"{would}hold meanwhile: {', '.join(self._shards)}")

    def carry_out(self, consumer: "ShardConsumer", *, as_json: bool) -> bool:
        """Process the letters, and print what became of them; return true if none failed."""
        from shardline.consumer.dead_letters import open_dead_letters
        from shardline.consumer.letters.held_shards import HeldShards
        from shardline.consumer.letters.redrive import Redrive
        from shardline.tables.consumers import change_reader

        change_of = change_reader(consumer, self._stream)
        with (
            closing(open_dead_letters(self._place, self._access)) as box,
            HeldShards(self._table, self._app, self._stream_name) as held,
        ):
            held.take(self._shards)
            result = Redrive(self._table, held, self._rows, box).run(
                self._read, self._keys, lambda: copy.deepcopy(consumer), change_of
            )
        if as_json:
            values = asdict(result) | {
                "unparked": sorted(result.unparked),
                "without_letters": sorted(result.without_letters),
            }
            print_json({"done": True, **values})
        else:
            for letter_id, reason in result.failed.items():
                typer.echo(f"failed again: {printable(letter_id)}: {printable(reason)}", err=True)
            for key in sorted(result.without_letters):
                typer.echo(
                    f"{printable(key)} is parked and has no letters, which may have expired: "
                    "--key unparks it",
                    err=True,
                )
            line = f"{result.processed} letters processed"
            for count, what in (
                (result.stale, "removed because their records are delivered again"),
                (result.waiting, "still wait"),
                (len(result.unparked), "keys unparked"),
            ):
                line += f" · {count} {what}" if count else ""
            typer.echo(line)
        return not result.failed

    def _read(self) -> "Sequence[Letter]":
        from shardline.observation.dead_letter_reader import open_letters

        with closing(open_letters(self._place, self._access)) as reader:
            letters = reader.read_all().letters()
        mine = (self._app, self._stream_name)
        return [letter for letter in letters if (letter.app, letter.stream) == mine]
