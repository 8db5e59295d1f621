"""Variable behaviour of the embedded service, within what AWS allows itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

REGION: Final = "us-east-1"
ACCOUNT_ID: Final = "000000000000"
"""Of every ARN, whatever region a client names."""
STRICT_STATUS_DELAY_MS: Final = 200


@dataclass
class Settings:
    """Settings that can be changed while the service runs. The defaults are the kind ones."""

    status_delay_ms: int = 0
    """The duration of CREATING, UPDATING and DELETING on the service's clock."""
    shard_limit: int = 20_000
    """The number of open shards that the account can have."""
    empty_page_every: int = 0
    """Every n-th GetRecords call of a shard returns an empty page; 0 for none."""
    stale_listing_one_in: int = 0
    """One in n listings of a stream lacks its newest split or merge, by a seeded draw."""
    cut_answer_one_in: int = 0
    """One in n answers of calls without effect ends in mid-body, by a seeded draw.

    Never two in a row for one operation and shard: a client that tries again gets through.
    """

    @classmethod
    def strict(cls) -> Self:
        """Return the settings of a service that is as unpleasant as AWS can be."""
        return cls(
            status_delay_ms=STRICT_STATUS_DELAY_MS,
            empty_page_every=4,
            stale_listing_one_in=4,
            cut_answer_one_in=20,
        )
