"""Faults that tests and users inject, to check that a consumer survives them."""

from __future__ import annotations

import random
import threading
import zlib
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

FaultKind = Literal[
    "throttle",
    "internal-failure",
    "hang",
    "cut",
    "cut-answer",
    "lose-reply",
    "stale-listing",
    "open-parent",
    "missing-next-iterator",
]
"""The kinds of faults:

throttle               the service's exception for too many calls; in PutRecords for single records
internal-failure       a 500
hang                   no answer for `seconds`, or until released or cleared; then the call proceeds
cut                    the connection is cut before the call had any effect
cut-answer             the connection is cut in the middle of the answer, after the effect
lose-reply             the connection is cut after the call took effect
stale-listing          listings show the shards as of `reshards` splits and merges ago
open-parent            listings show closed shards as open
missing-next-iterator  the end of a shard has no NextShardIterator member instead of a null one
"""

KINDS: Final[tuple[str, ...]] = get_args(FaultKind)


@dataclass
class Fault:
    """One fault: which calls it affects, how many of them, and its parameters."""

    kind: FaultKind
    operation: str | None = None
    """An operation such as "GetRecords"; None for all."""
    shard_id: str | None = None
    """Only calls (or records) that concern this shard; None for all."""
    times: int | None = 1
    """The number of calls that it still affects; None until it is cleared."""
    probability: float = 1.0
    seconds: float | None = None
    """For "hang": the duration in real time; None until released."""
    reshards: int = 1
    """For "stale-listing": by how many splits and merges the listing lags."""
    after: int = 0
    """How many calls that match still pass before it begins."""
    released: threading.Event = field(default_factory=threading.Event, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}: one of {', '.join(KINDS)}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is {self.probability}: it must lie between 0 and 1")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times is {self.times}: at least 1, or None until cleared")


class Faults:
    """The injected faults. Thread-safe; draws of probabilities repeat with the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._hanging: list[Fault] = []
        self._random = random.Random(seed)  # noqa: S311 - faults, not secrets
        self._seed = seed
        self._draws: dict[tuple[str, ...], int] = {}

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
        after: int = 0,
    ) -> Fault:
        """Inject a fault into the next `times` calls that match, after the first `after`."""
        fault = Fault(kind, operation, shard_id, times, probability, seconds, reshards, after)
        with self._lock:
            self._faults.append(fault)
        return fault

    @property
    def any(self) -> bool:
        """Whether a fault is injected that was not used up or cleared."""
        return bool(self._faults)

    def take(self, kind: FaultKind, operation: str, shard_id: str | None = None) -> Fault | None:
        """Return a fault of this kind that matches the call, or None. Counts it as used."""
        if not self._faults:
            return None
        with self._lock:
            for fault in self._faults:
                if (
                    fault.kind != kind
                    or fault.operation not in (None, operation)
                    or fault.shard_id not in (None, shard_id)
                ):
                    continue
                if fault.after:
                    fault.after -= 1
                    continue
                if fault.probability < 1 and self._random.random() >= fault.probability:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                if fault.kind == "hang":
                    self._hanging.append(fault)
                return fault
        return None

    def happens(self, one_in: int, *key: str) -> bool:
        """Return true for about one in n calls of a key, never for two in a row; 0 for none.

        Each key has draws of its own, so that they repeat with the same seed however the calls
        of several threads interleave.
        """
        if not one_in:
            return False
        with self._lock:
            count = self._draws[key] = self._draws.get(key, -1) + 1
        return self._drawn(one_in, key, count) and not (
            count and self._drawn(one_in, key, count - 1)
        )

    def _drawn(self, one_in: int, key: tuple[str, ...], count: int) -> bool:
        return zlib.crc32(repr((self._seed, key, count)).encode()) % one_in == 0

    def pending(self) -> tuple[Fault, ...]:
        """Return the faults that are not used up."""
        with self._lock:
            return tuple(self._faults)

    def release(self) -> None:
        """Continue every call that hangs."""
        with self._lock:
            for fault in self._hanging:
                fault.released.set()
            self._hanging.clear()

    def clear(self) -> None:
        """Remove every fault and let every hanging call proceed."""
        with self._lock:
            self._faults.clear()
        self.release()
