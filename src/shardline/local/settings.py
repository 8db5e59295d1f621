"""How the embedded service behaves where the real one is free to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings:
    """May be changed while the service runs."""

    status_delay_ms: int = 0
    """How long CREATING, UPDATING and DELETING last, on the service's clock."""
    empty_page_every: int = 0
    """Every n-th read of a shard that has more gives an empty page; 0 for never."""
