"""Faults that tests and users set, to see that a consumer gets over them."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

FaultKind = Literal[
    "throttle",
    "internal-failure",
    "hang",
    "cut",
    "lose-reply",
    "stale-listing",
    "open-parent",
    "missing-next-iterator",
]
"""What goes wrong:

throttle               the service's exception for too many calls; in PutRecords record by record
internal-failure       a 500
hang                   nothing for `seconds`, or until released or cleared; then the call goes on
cut                    the connection is cut before the call had any effect
lose-reply             the connection is cut after the call took effect
stale-listing          shards are listed as they were `reshards` splits and merges ago
open-parent            shards with children are listed as if they were still open
missing-next-iterator  the end of a shard lacks NextShardIterator instead of giving null
"""

KINDS: Final[tuple[str, ...]] = get_args(FaultKind)


@dataclass
class Fault:
    """One fault: which calls it meets, how often, and how it acts."""

    kind: FaultKind
    operation: str | None = None
    """An operation such as "GetRecords"; None for all."""
    shard_id: str | None = None
    """Only calls (or records) that concern this shard; None for all."""
    times: int | None = 1
    """How many more calls it meets; None until it is cleared."""
    probability: float = 1.0
    seconds: float | None = None
    """For "hang": how long, in real time; None until released."""
    reshards: int = 1
    """For "stale-listing": how many splits and merges the listing lags behind."""
    released: threading.Event = field(default_factory=threading.Event, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}: one of {', '.join(KINDS)}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is {self.probability}: it must lie between 0 and 1")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times is {self.times}: at least 1, or None until cleared")


class Faults:
    """The faults that are set. Any thread may set them; the same seed gives the same draws."""

    def __init__(self, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._hanging: list[Fault] = []
        self._random = random.Random(seed)  # noqa: S311 - faults, not secrets

    def add(
        self,
        kind: FaultKind,
        operation: str | None = None,
        *,
        shard_id: str | None = None,
        times: int | None = 1,
        probability: float = 1.0,
        seconds: float | None = None,
        reshards: int = 1,
    ) -> Fault:
        """Set a fault for the next `times` calls that it fits."""
        fault = Fault(kind, operation, shard_id, times, probability, seconds, reshards)
        with self._lock:
            self._faults.append(fault)
        return fault

    def take(self, kind: FaultKind, operation: str, shard_id: str | None = None) -> Fault | None:
        """Return a fault of this kind that hits this call, and count it as used."""
        if not self._faults:
            return None
        with self._lock:
            for fault in self._faults:
                if (
                    fault.kind != kind
                    or fault.operation not in (None, operation)
                    or fault.shard_id not in (None, shard_id)
                    or (fault.probability < 1 and self._random.random() >= fault.probability)
                ):
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                if fault.kind == "hang":
                    self._hanging.append(fault)
                return fault
        return None

    def pending(self) -> tuple[Fault, ...]:
        """Return the faults that are still to come."""
        with self._lock:
            return tuple(self._faults)

    def release(self) -> None:
        """Let every call that hangs go on."""
        with self._lock:
            for fault in self._hanging:
                fault.released.set()
            self._hanging.clear()

    def clear(self) -> None:
        """Remove every fault, and let every call that hangs go on."""
        with self._lock:
            self._faults.clear()
        self.release()
