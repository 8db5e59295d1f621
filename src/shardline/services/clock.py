"""A clock for leases and deadlines that never goes back and counts the time a machine sleeps."""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def boot_seconds() -> float:
        """Return the seconds since the machine was started, those of its sleep included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def boot_seconds() -> float:
        """Return monotonic seconds: this system has no clock that counts sleep."""
        return time.monotonic()
