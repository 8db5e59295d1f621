"""From an address to a lease table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from shardline.leases.port import LeaseTable
    from shardline.services.access import Access


def open_table(address: str, access: Access | None = None) -> LeaseTable:
    """Return the lease table at `sqlite:///file`, `postgresql://…` or `dynamodb://table`.

    Nothing is sent yet: call `prepare` once. `access` is for DynamoDB.
    """
    scheme, _, rest = address.partition("://")
    if not rest or scheme.partition("+")[0] not in {"sqlite", "postgresql", "dynamodb"}:
        raise ConfigurationError(
            f"{address!r} is not the address of a lease table: write sqlite:///FILE, "
            "postgresql://USER@HOST/DATABASE or dynamodb://TABLE"
        )
    if scheme == "dynamodb":
        from shardline.leases.dynamodb import DynamoLeaseTable

        return DynamoLeaseTable(rest, access)
    from shardline.leases.sql import SqlLeaseTable

    return SqlLeaseTable(address)
