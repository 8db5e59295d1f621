"""Variable behaviour of the embedded service, within what AWS allows itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings:
    """Settings that can be changed while the service runs."""

    status_delay_ms: int = 0
    """The duration of CREATING, UPDATING and DELETING on the service's clock."""
    empty_page_every: int = 0
    """Every n-th GetRecords call of a shard returns an empty page; 0 for none."""
