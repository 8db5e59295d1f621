"""The lease table that `--app` and `--lease-table` name."""

from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.leases.port import LeaseTable
    from shardline.services.access import Access


@contextmanager
def open_lease_table(
    app: str | None, address: str | None, access: "Access", endpoint_url: str | None
) -> "Iterator[LeaseTable | None]":
    """Open the lease table, and close it at the end; None if neither option was given.

    `endpoint_url` is that of the lease table; the one in `access` is the stream's.
    """
    if app is None and address is None:
        yield None
        return
    if app is None:
        raise ConfigurationError(
            "--lease-table may hold several applications: choose one with --app NAME"
        )
    if address is None:
        raise ConfigurationError(
            f"--app {app}: name its lease table with --lease-table "
            "dynamodb://TABLE, sqlite:///FILE or postgresql://HOST/DATABASE"
        )
    from shardline.leases.address import missing_file, open_table

    if (file := missing_file(address)) is not None:
        raise ConfigurationError(
            f"there is no file {file}: check --lease-table, or has {app!r} not run yet?"
        )
    with closing(open_table(address, replace(access, endpoint_url=endpoint_url))) as table:
        yield table
