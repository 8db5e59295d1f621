"""What happened in a simulated world, in the order in which it was seen: the input of checkers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardline.core.promise import PromiseChecker, RecordRef

if TYPE_CHECKING:
    from shardline.core.fences import Fence


@dataclass(frozen=True, slots=True)
class ShardOpened:
    shard: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wrote:
    shard: str
    record: RecordRef


@dataclass(frozen=True, slots=True)
class Delivered:
    shard: str
    fence: Fence
    records: tuple[RecordRef, ...]
    owner: str


@dataclass(frozen=True, slots=True)
class Checkpointed:
    shard: str
    epoch: int
    upto: int | None
    """None: the end of the shard."""
    owner: str


@dataclass(frozen=True, slots=True)
class Excused:
    """What lies between two numbers may stay undelivered: a declared gap, or not wanted."""

    shard: str
    after: int = -1
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Rewound:
    """A checkpoint was lost with its row and its holder: what came after it may come again."""

    shard: str
    upto: int


Event = ShardOpened | Wrote | Delivered | Checkpointed | Excused | Rewound


class History:
    """The events so far, and the verdict of the first checker on them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.checker = PromiseChecker()

    def add(self, event: Event) -> None:
        self.events.append(event)
        judge(self.checker, event)


def judge(checker: PromiseChecker, event: Event) -> None:
    """Pass an event to the checker of the promises."""
    match event:
        case ShardOpened(shard, parents):
            checker.shard(shard, parents)
        case Wrote(shard, record):
            checker.wrote(shard, record)
        case Delivered(shard, fence, records, owner):
            checker.delivered(shard, fence, records, owner)
        case Checkpointed(shard, epoch, upto, owner):
            checker.checkpointed(shard, epoch, upto, owner)
        case Excused(shard, after, before):
            checker.gap(shard, after, before)
        case Rewound(shard, upto):
            checker.rewound(shard, upto)
