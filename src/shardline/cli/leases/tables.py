"""The lease table that `--app` and `--lease-table` name."""

from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from shardline.leases.port import LeaseTable
    from shardline.services.access import Access


def open_if_named(
    app: str | None, address: str | None, access: "Access", endpoint_url: str | None
) -> "AbstractContextManager[LeaseTable | None]":
    """Open the lease table as `open_lease_table` does; None if neither option was given."""
    if app is None and address is None:
        return nullcontext()
    if app is None:
        raise ConfigurationError(
            "--lease-table may hold several applications: choose one with --app NAME"
        )
    if address is None:
        raise ConfigurationError(
            f"--app {app}: name its lease table with --lease-table "
            "dynamodb://TABLE, sqlite:///FILE or postgresql://HOST/DATABASE"
        )
    return open_lease_table(app, address, access, endpoint_url)


def open_lease_table(
    app: str, address: str, access: "Access", endpoint_url: str | None
) -> "closing[LeaseTable]":
    """Open the lease table, and close it at the end.

    `endpoint_url` is that of the lease table; the one in `access` is the stream's.
    """
    from shardline.leases.address import missing_file, open_table

    if (file := missing_file(address)) is not None:
        raise ConfigurationError(
            f"there is no file {file}: check --lease-table, or has {app!r} not run yet?"
        )
    return closing(open_table(address, replace(access, endpoint_url=endpoint_url)))
