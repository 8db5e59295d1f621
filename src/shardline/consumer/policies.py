"""What happens when a consumer fails: the policies, and the one function that applies them.

`after_failure` is the only place that decides. It is given the policy and what is known about the
part of a page that failed, and returns what to do next as a value; `consumer.delivery` does it.

A page is delivered whole at first. Under `DeadLetter` by record or by key, a page that keeps
failing is halved, and halved again: each part is tried once, and only a part of one record is
tried as often as the page was. One bad record in a page of 1,000 costs about twenty calls more,
not a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from shardline.core.leasing.parked_keys import MOST_PARKED_KEYS
from shardline.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again with growing pauses; halt the shard after the last attempt."""

    attempts: int = 8
    """How often `process` is called with the same records before the shard is halted."""
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 30.0

    def __post_init__(self) -> None:
        _require_positive("attempts", self.attempts)

    def delay_seconds(self, failures: int) -> float:
        """Return the pause after the n-th failure, counted from 1."""
        doublings = min(failures - 1, 60)
        return float(min(self.longest_delay_seconds, self.first_delay_seconds * 2**doublings))


@dataclass(frozen=True, slots=True)
class Halt:
    """Halt the shard at the first failure: nothing is checkpointed past it.

    Other shards go on. `shardline leases` shows the halted shard with the reason, and
    `shardline leases release` lets a worker take it again.
    """


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Write what fails to a safe place with the reason, and go on.

    `to` is `kinesis://STREAM`, `dynamodb://TABLE` (with a hash key `id` of type string) or
    `file:///FOLDER` (on a cluster, a folder that every executor sees).

    - `per="record"`: only the records that fail by themselves are put aside. The records after
      them are processed, so a failed record is out of order with the rest of its key.
    - `per="key"`: the later records of a failed record's key follow it into the dead letters, and
      the other keys go on. `shardline letters redrive` processes them in order.
    - `per="batch"`: the batch that failed is put aside as a whole.
    """

    to: str
    per: Literal["record", "batch", "key"] = "record"
    attempts: int = 2
    """How often to try the whole batch, and then each single record, before giving up on it."""
    most_parked_keys: int = MOST_PARKED_KEYS
    """With `per="key"`: the shard is halted instead of parking one key more than this."""
    pauses: Retry = field(default_factory=Retry, repr=False)
    """How long to wait between the attempts. Its own `attempts` are not used."""

    def __post_init__(self) -> None:
        _require_positive("attempts", self.attempts)
        _require_positive("most_parked_keys", self.most_parked_keys)
        if self.most_parked_keys > MOST_PARKED_KEYS:
            raise ConfigurationError(
                f"most_parked_keys={self.most_parked_keys}: a lease table keeps at most "
                f"{MOST_PARKED_KEYS} for one shard: write less"
            )
        if self.per not in {"record", "batch", "key"}:
            raise ConfigurationError(f"per={self.per!r}: write 'record', 'batch' or 'key'")


FailurePolicy = Retry | Halt | DeadLetter


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known about a part of a page when `process` has raised for it."""

    failures: int
    """How often this very part has failed, this time included."""
    records: int
    """How many records it has."""
    whole: bool
    """True until the page has been halved."""
    parked_keys: int = 0
    """How many keys of the shard are parked."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Wait, then call `process` with the same records again."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Halve:
    """Deliver the first half of the records, then the second half."""


@dataclass(frozen=True, slots=True)
class PutAside:
    """Write the records to the dead letters."""

    park: bool
    """True if the key of the record is to be parked."""


@dataclass(frozen=True, slots=True)
class HaltShard:
    """Stop the deliveries of the shard: nothing after this may be acknowledged."""

    because: str = ""
    """Why the policy's own way out is closed; empty where halting is the policy."""


Decision = TryAgain | Halve | PutAside | HaltShard


def after_failure(policy: FailurePolicy, failure: Failure) -> Decision:
    """Return what to do after a failure."""
    match policy:
        case Halt():
            return HaltShard()
        case Retry(attempts):
            if failure.failures < attempts:
                return TryAgain(policy.delay_seconds(failure.failures))
            return HaltShard()
        case DeadLetter(per=per, attempts=attempts):
            tried_often = failure.whole or failure.records == 1
            if tried_often and failure.failures < attempts:
                return TryAgain(policy.pauses.delay_seconds(failure.failures))
            if per == "batch":
                return PutAside(park=False)
            if failure.records > 1:
                return Halve()
            if per == "key" and failure.parked_keys >= policy.most_parked_keys:
                return HaltShard(f"{failure.parked_keys} keys are parked already")
            return PutAside(park=per == "key")


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise ConfigurationError(f"{name}={value}: write 1 or more")
