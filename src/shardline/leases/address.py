"""From an address to a lease table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from shardline.errors import ConfigurationError, optional_import

if TYPE_CHECKING:
    from shardline.leases.port import LeaseTable
    from shardline.services.access import Access

_FORMS: Final = "write sqlite:///FILE, postgresql://USER@HOST/DATABASE or dynamodb://TABLE"


def open_table(address: str, access: Access | None = None) -> LeaseTable:
    """Return the lease table at `sqlite:///file`, `postgresql://…` or `dynamodb://table`.

    Nothing is sent yet: call `prepare` once. `access` is for DynamoDB.
    """
    scheme, _, rest = address.partition("://")
    kind = scheme.partition("+")[0]
    if not rest or kind not in {"sqlite", "postgresql", "dynamodb"}:
        # An address is never repeated: it may hold a password.
        named = f"{kind}://…" if rest else "that"
        raise ConfigurationError(f"{named} is not the address of a lease table: {_FORMS}")
    if kind == "dynamodb":
        if "@" in rest:
            raise ConfigurationError(
                "the address of a DynamoDB lease table has no user and no password: "
                "write dynamodb://TABLE"
            )
        from shardline.leases.dynamodb import DynamoLeaseTable

        return DynamoLeaseTable(rest, access)
    if rest.partition("?")[0].count("@") > 1:
        raise ConfigurationError(
            "the address of the lease table has more than one @: write special characters of a "
            "user or password as %40 (@), %2F (/), %3A (:), or set PGPASSWORD"
        )
    with optional_import(f"the lease table {scheme}://"):
        from shardline.leases.sql import SqlLeaseTable

    return SqlLeaseTable(address)


def missing_file(address: str) -> str | None:
    """Return the file of a SQLite table that is not there: opening the table would create it."""
    file = address.removeprefix("sqlite:///")
    if file == address:
        return None
    file = file.partition("?")[0]
    return None if Path(file).is_file() else file


def table_is_local(address: str) -> bool:
    """Return true if only the processes of one machine can open the table at an address."""
    scheme = address.partition("://")[0].partition("+")[0]
    return scheme == "sqlite"
