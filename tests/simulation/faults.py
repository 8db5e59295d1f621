"""What may go wrong, chosen from a seed before anything runs, so that it can be left out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

KINDS = {
    "crash": 3, "pause": 3, "deploy": 3, "lose": 2, "slow": 2, "lag": 2, "outage": 2, "drift": 1,
    "split": 4, "merge": 4, "storm": 1, "late listing": 2, "cut listing": 1, "expire": 1,
    "delete row": 1, "delete header": 1, "delete heartbeat": 1, "newcomer": 1, "overlap": 2,
    "recreate": 1, "cut off": 2, "hang": 1,
}  # fmt: skip


PEACEFUL = ("split", "merge", "storm", "newcomer", "late listing")
"""After these alone nothing is delivered twice: hand-overs wait for the running batch."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that goes wrong, when, to whom, and for how long."""

    at: float
    kind: str
    target: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.at:6.1f}s {self.kind} (worker or stream {self.target}, {self.seconds:.1f}s)"


def choose_faults(random: Random, until: float) -> tuple[Fault, ...]:
    peaceful = random.random() < 0.1
    kinds, weights = zip(
        *(kind for kind in KINDS.items() if kind[0] in PEACEFUL or not peaceful), strict=True
    )
    count = random.randrange(3, 12)
    return tuple(
        sorted(
            Fault(
                at=random.uniform(2.0, until),
                kind=random.choices(kinds, weights)[0],
                target=random.randrange(6),
                seconds=random.choice((1.0, 4.0, 9.0)) * random.uniform(0.5, 1.5),
            )
            for _ in range(count)
        )
    )
