"""Opens the lease table that `--app` and `--lease-table` name, or says which one is missing."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shardline.cli.options import Place
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.leases.port import LeaseTable


@contextmanager
def lease_table_for(
    app: str | None, address: str | None, place: Place
) -> "Iterator[LeaseTable | None]":
    """Open the table while it is used; None where neither option was given.

    The place's endpoint is the lease table's own: the stream's is another server than DynamoDB's.
    """
    if app is None and address is None:
        yield None
        return
    if app is None:
        raise ConfigurationError("--lease-table holds many applications: say which with --app NAME")
    if address is None:
        raise ConfigurationError(
            f"--app {app}: say where its leases are with --lease-table "
            "dynamodb://TABLE, sqlite:///FILE or postgresql://HOST/DATABASE"
        )
    from shardline.leases.address import open_table
    from shardline.services.access import Access

    # Opening would leave an empty file behind; reading a table must not make one.
    if (file := address.removeprefix("sqlite:///")) != address and not Path(file).is_file():
        raise ConfigurationError(
            f"there is no file {file}: check --lease-table, or has {app!r} not run yet?"
        )
    table = open_table(address, Access(**place))
    try:
        yield table
    finally:
        table.close()
