"""What a contender delivered, as it writes it down itself.

Contenders append to `FOLDER/SHARD.deliveries`, or all.deliveries, one line for each delivery, as
soon as user code has it: `TIME COUNT PUT_OF_OLDEST PUT_OF_NEWEST`, and in detail ` KEY:NUMBER` for
each record.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_POINTS: Final = 5
"""A delivery's records are taken as put at so many moments between its oldest and newest."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One call of user code."""

    at: float
    count: int
    oldest_put: float
    newest_put: float
    records: tuple[tuple[str, int], ...] = ()
    """Key and number of each, if the contender was asked for details."""
    shard_id: str = "all"
    """"all" for a contender that delivers all shards together."""


@dataclass
class DeliveryLog:
    """The deliveries of all processes of a contender, read as they grow."""

    folder: Path
    deliveries: list[Delivery] = field(default_factory=list)
    _read: dict[Path, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """How many records were delivered until the log was last read."""
        return sum(each.count for each in self.deliveries)

    def read_on(self) -> None:
        """Read what was written since the last call."""
        for path in self.folder.glob("*.deliveries"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            self.deliveries += [parse(line, path.stem) for line in whole.decode().splitlines()]

    def wait_for(
        self, records: int, seconds: float, check: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until so many records were delivered. `check` raises if waiting is in vain."""
        deadline = time.monotonic() + seconds
        while self.records < records:
            if time.monotonic() > deadline:
                came = f"{self.records:,} of {records:,} records"
                raise TimeoutError(f"{came} came within {seconds:.0f} s")
            check()
            time.sleep(0.05)
            self.read_on()


def parse(line: str, shard_id: str = "all") -> Delivery:
    """Return the delivery that a line tells of."""
    at, count, oldest, newest, *records = line.split()
    pairs = (each.rpartition(":") for each in records)
    numbered = tuple((key, int(number)) for key, _, number in pairs)
    return Delivery(float(at), int(count), float(oldest), float(newest), numbered, shard_id)


def delays(
    deliveries: Sequence[Delivery], put_from: float, put_until: float
) -> list[tuple[float, float]]:
    """Return (delay, weight) of the records that were put in a window."""
    found = []
    for each in deliveries:
        step = (each.newest_put - each.oldest_put) / (_POINTS - 1)
        points = [each.oldest_put + n * step for n in range(_POINTS)]
        found += [
            (each.at - put, each.count / _POINTS) for put in points if put_from <= put < put_until
        ]
    return found


def percentile(weighted: Sequence[tuple[float, float]], share: float, total: float) -> float:
    """Return the delay that a share of `total` records does not exceed, infinite if too few."""
    reached = 0.0
    for delay, weight in sorted(weighted):
        reached += weight
        if reached >= share * total * 0.999:  # weights are fractions
            return delay
    return math.inf
