"""What may go wrong, chosen from a seed before anything runs, so that it can be left out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

TROUBLES = ("lose", "slow", "outage", "hang", "throttle")
PATHS = ("table", "listing", "reading", "one shard")

KINDS = {
    "crash": 4, "kill runner": 4, "pause keeper": 2, "pause runner": 3, "sleep": 3, "cut off": 3,
    "hang": 2, "deploy": 3, "newcomer": 1, "drift": 1, "table lags": 2,
    "split": 4, "merge": 4, "storm": 1, "stale listing": 2, "open parent": 1, "recreate": 1,
    "night": 1, "wall clock": 1, "delete row": 1, "delete header": 1, "delete heartbeat": 1,
    **{f"{trouble}: {path}": 1 for trouble in TROUBLES for path in PATHS},
}  # fmt: skip

PEACEFUL = ("split", "merge", "storm", "newcomer", "stale listing", "open parent", "deploy")
"""After these alone nothing is delivered twice: hand-overs wait for the delivery at hand."""


NIGHT_HOURS = (12.0, 23.9, 24.2, 40.0)
"""How long all workers are down in a night. Records are kept for 24 hours."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that goes wrong, when, to whom, and for how long."""

    at: float
    """When it begins; nights before it do not count."""
    kind: str
    target: int
    seconds: float

    @property
    def night_seconds(self) -> float:
        """How long all workers are down; 0 if this is no night."""
        return 3600 * NIGHT_HOURS[self.target % 4] if self.kind == "night" else 0.0

    def __str__(self) -> str:
        return f"FAULT {self.kind} (target {self.target}, {self.seconds:.1f} s)"


def choose_faults(
    random: Random, until: float, lease_seconds: float, *, peaceful: bool
) -> tuple[Fault, ...]:
    kinds = [kind for kind in KINDS if kind in PEACEFUL or not peaceful]
    weights = [KINDS[kind] for kind in kinds]
    count = random.choice((0, 1, 2, 3, 5, 8, 11))
    return tuple(
        sorted(
            Fault(
                at=round(random.uniform(1.0, until), 3),
                kind=random.choices(kinds, weights)[0],
                target=random.randrange(6),
                seconds=round(lease_seconds * random.choice((0.1, 0.4, 0.9, 1.5)), 3)
                * random.choice((0.5, 1.0, 1.5)),
            )
            for _ in range(count)
        )
    )


def choose_handovers(random: Random, until: float, lease_seconds: float) -> tuple[Fault, ...]:
    """Choose deploys and newcomers besides, in one of four worlds: shards change hands often."""
    count = random.choice((0, 0, 0, 5))
    return tuple(
        Fault(
            at=round(random.uniform(1.0, until), 3),
            kind=random.choice(("deploy", "deploy", "deploy", "newcomer")),
            target=random.randrange(6),
            seconds=round(lease_seconds * random.choice((0.1, 0.4)), 3),
        )
        for _ in range(count)
    )


def choose_switch(random: Random, until: float, *, peaceful: bool) -> tuple[Fault, ...]:
    """Choose when a table's stream is switched off, and for how long: in one of three worlds."""
    if peaceful or random.random() < 0.67:
        return ()
    at, off_seconds = round(random.uniform(1.0, until), 3), random.choice((0.1, 1.0, 4.0))
    return (Fault(at, "recreate", random.randrange(6), off_seconds),)
