"""Every known bug, to be put in the place of the right code one by one."""

from __future__ import annotations

from tests.simulation import consumer_bugs, hole_bugs, lease_bugs
from tests.simulation.bug import BUGS, Bug

__all__ = ["BUGS", "Bug", "consumer_bugs", "hole_bugs", "lease_bugs"]
