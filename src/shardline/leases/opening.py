"""From an address to a lease table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.errors import ConfigurationError
from shardline.services.clients import Access

if TYPE_CHECKING:
    from shardline.leases.port import LeaseTable


def open_table(
    address: str,
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    role_arn: str | None = None,
) -> LeaseTable:
    """Return the lease table at `sqlite:///file`, `postgresql://…` or `dynamodb://table`.

    Nothing is sent yet: call `prepare` once. The keywords are for DynamoDB.
    """
    scheme, _, rest = address.partition("://")
    if not rest or scheme.partition("+")[0] not in {"sqlite", "postgresql", "dynamodb"}:
        raise ConfigurationError(
            f"{address!r} is not the address of a lease table: write sqlite:///FILE, "
            "postgresql://USER@HOST/DATABASE or dynamodb://TABLE"
        )
    if scheme == "dynamodb":
        from shardline.leases.dynamodb import DynamoLeaseTable

        return DynamoLeaseTable(rest, Access(region, endpoint_url, profile, role_arn))
    from shardline.leases.sql import SqlLeaseTable

    return SqlLeaseTable(address)
