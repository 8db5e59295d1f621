"""Hands one shard's pages to the user's consumer, and applies its failure policy.

Written as steps: what must be called is yielded, and whoever runs the steps makes the call, in
whichever thread it likes. There is no thread, no clock and no waiting in here.

Three rules hold the promises together.

- Every try has a fence of its own, higher than all before it: also each half of a page that was
  taken apart, and each letter. A sink that keeps the highest fence can refuse an older writer.
- The writes for a failed record come in this order: the letter, the row that parks its key, the
  checkpoint (by whoever runs the steps, after `Done`). A crash in between repeats, never skips.
- The records of a parked key go to the dead letters without being tried.

Several `deliver_steps` of one `Delivery` may run side by side if no key is in two of them (see
`consumer.lanes`); run them with one lock.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from shardline.consumer.consumer import ChangeOf, ShardBatch, ShardConsumer, records_in
from shardline.consumer.keys import keys_of
from shardline.consumer.lanes import split
from shardline.consumer.policies import (
    DeadLetter,
    Failure,
    HaltShard,
    Halve,
    PutAside,
    Retry,
    TryAgain,
    after_failure,
)
from shardline.core.fences import Fence
from shardline.errors import ConfigurationError, LeaseLost, ShardlineError
from shardline.services.steps import Call, Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shardline.consumer.dead_letters import LetterWriter
    from shardline.services.steps import Steps

logger = logging.getLogger(__name__)

T = TypeVar("T")

FOLLOWS: Final = "its key is parked"
"""The reason in the letter of a record that was not tried."""


class Unanswered(ShardlineError):
    """A call was sent on, and its answer is not here yet: make it again after a while."""


class Cancelled(ShardlineError):
    """The lease is gone: the rest of the page belongs to another worker."""


@dataclass(frozen=True, slots=True)
class Done:
    """Every record of the page was processed or put aside: it may be acknowledged."""

    processed: int = 0
    dead_lettered: int = 0
    retries: int = 0
    """Calls of `process` beyond the first."""


@dataclass(frozen=True, slots=True)
class Halted:
    """The policy stops the shard: nothing of this page may be acknowledged."""

    reason: str


Outcome = Done | Halted


class Delivery:
    """One shard's deliveries under one epoch."""

    def __init__(
        self,
        consumer: ShardConsumer,
        shard_id: str,
        epoch: int,
        *,
        cancelled: Callable[[], bool] = lambda: False,
        letters: LetterWriter | None = None,
        parked: Iterable[str] = (),
        park: Callable[[str, str], Call] | None = None,
        find_hash_key: Callable[[], str | None] | None = None,
        change_of: ChangeOf | None = None,
    ) -> None:
        """Deliver to `consumer`, under its own failure policy.

        `cancelled` returns true once the lease is gone. `letters` is needed if the policy is
        `DeadLetter`. `parked` are the keys that are parked when the lease is taken; `park(key,
        letter_id)` returns the call that parks one more. The call returns when that is durable,
        and raises `LeaseLost` when the lease is gone, `Unanswered` while it does not know.
        `find_hash_key` asks for the hash key of a DynamoDB table.
        """
        if isinstance(consumer.failure, DeadLetter):
            if letters is None:
                raise ConfigurationError(_NO_PLACE)
            if park is None and consumer.failure.per == "key":
                raise ConfigurationError(
                    'DeadLetter(per="key") keeps parked keys in the lease table: pass --lease-table'
                )
        self._consumer = consumer
        self._shard_id = shard_id
        self._epoch = epoch
        self.cancelled: Final = cancelled
        self._letters = letters
        self._parked = pa.array(sorted(set(parked)), pa.string())
        self._park = park or _cannot_park
        self._hash_key: str | None = None
        self._find_hash_key = find_hash_key
        self._change_of = change_of
        self._numbers = count(1)

    @property
    def parked(self) -> frozenset[str]:
        """The keys whose records go to the dead letters without being tried."""
        return frozenset(self._parked.to_pylist())

    def fence(self) -> Fence:
        """Return the next fence: `shard_started` gets one, and so does every try."""
        return Fence(self._epoch, next(self._numbers))

    def split(self, arrow: pa.RecordBatch, lanes: int) -> list[pa.RecordBatch]:
        """Return one batch for each lane: see `consumer.lanes`. To be made as a call."""
        self._learn_hash_key(arrow)
        return split(arrow, lanes, self._hash_key)

    def deliver_steps(self, arrow: pa.RecordBatch) -> Steps[Outcome]:
        """Deliver a page, in order; raise `Cancelled` when the lease is gone."""
        if len(self._parked) or isinstance(self._consumer.failure, DeadLetter):
            learn = partial(self._learn_hash_key, arrow)
            yield from self._until_done(learn, "ask for the table's hash key")
        processed = dead_lettered = calls = 0
        parts = [arrow]  # the next one is the last
        while parts:
            part, followers = self._without_parked(parts.pop())
            if followers.num_rows:
                if self._letters is None:
                    return Halted(f"{len(self._parked)} keys are parked, and {_NO_PLACE}")
                yield from self._put_aside(self._letters, followers, FOLLOWS, parked=True)
                dead_lettered += followers.num_rows
            if not part.num_rows:
                continue
            whole = part.num_rows + followers.num_rows == arrow.num_rows
            tries, failed = yield from self._try(part, whole=whole)
            calls += tries
            if failed is None:
                processed += part.num_rows
                continue
            decision, error = failed
            if isinstance(decision, Halve):
                middle = part.num_rows // 2
                parts += [part.slice(middle), part.slice(0, middle)]
                continue
            yield from self._call_record_failed(part, error)
            if isinstance(decision, HaltShard):
                return Halted("; ".join(filter(None, [_reason(error), decision.because])))
            if self._letters is None:
                return Halted(f"{_reason(error)}; {_NO_PLACE}")
            ids = yield from self._put_aside(
                self._letters, part, _reason(error), parked=decision.park
            )
            dead_lettered += part.num_rows
            if decision.park:
                yield from self._park_key(part, ids[0])
        return Done(processed, dead_lettered, max(0, calls - 1))

    def _try(
        self, part: pa.RecordBatch, *, whole: bool
    ) -> Steps[tuple[int, tuple[Halve | PutAside | HaltShard, Exception] | None]]:
        """Call `process` until it succeeds, or the policy wants something else than to try again.

        Return the number of calls, and what the policy wants, with the last error.
        """
        for calls in count(1):
            self._require_lease()
            try:
                yield partial(self._consumer.process, self._batch(part))
            except Exception as error:
                self._require_lease(error)
                failure = Failure(calls, part.num_rows, whole, len(self._parked))
                decision = after_failure(self._consumer.failure, failure)
                if not isinstance(decision, TryAgain):
                    return calls, (decision, error)
                self._warn(
                    f"failed on {part.num_rows} records ({_reason(error)}); trying again in "
                    f"{decision.delay_seconds:.1f} s"
                )
                yield Pause(decision.delay_seconds)
            else:
                return calls, None
        raise AssertionError("unreachable")

    def _put_aside(
        self, letters: LetterWriter, part: pa.RecordBatch, reason: str, *, parked: bool
    ) -> Steps[tuple[str, ...]]:
        write = partial(
            letters.write, self._batch(part), reason, parked=parked, hash_key=self._hash_key
        )
        ids: tuple[str, ...] = yield from self._until_done(write, "write dead letters")
        self._warn(f"put {part.num_rows} records aside: {reason}")
        return ids

    def _park_key(self, part: pa.RecordBatch, letter_id: str) -> Steps[None]:
        key = keys_of(part, self._hash_key)[0].as_py()
        yield from self._until_done(self._park(key, letter_id), "park a key")
        self._parked = pa.concat_arrays([self._parked, pa.array([key], pa.string())])
        self._warn(f"parked the key {key!r}: its records go to the dead letters from now on")

    def _until_done(self, call: Call, purpose: str) -> Steps[T]:
        """Make a call until it succeeds: without it nothing of the page may be acknowledged."""
        for failures in count(1):
            self._require_lease()
            try:
                result: T = yield call
            except LeaseLost as error:
                raise Cancelled(f"{self._shard_id}: {error}") from error
            except Unanswered:
                yield Pause(_ANSWER_SECONDS)
            except Exception as error:
                delay = _PAUSES.delay_seconds(failures)
                self._warn(f"could not {purpose} ({_reason(error)}); trying again in {delay:.1f} s")
                yield Pause(delay)
            else:
                return result
        raise AssertionError("unreachable")

    def _call_record_failed(self, part: pa.RecordBatch, error: Exception) -> Steps[None]:
        for record in records_in(self._shard_id, part):
            try:
                yield partial(self._consumer.record_failed, record, error)
            except Exception as raised:
                self._warn(f"record_failed raised {_reason(raised)}")

    def _learn_hash_key(self, arrow: pa.RecordBatch) -> None:
        if self._find_hash_key is not None and "keys" in arrow.schema.names:
            self._hash_key = self._find_hash_key()
            self._find_hash_key = None

    def _without_parked(self, part: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the records whose keys are not parked, and those whose keys are."""
        if not len(self._parked):
            return part, part.slice(0, 0)
        parked = pc.is_in(keys_of(part, self._hash_key), value_set=self._parked)
        return part.filter(pc.invert(parked)), part.filter(parked)

    def _batch(self, part: pa.RecordBatch) -> ShardBatch:
        return ShardBatch(self._shard_id, self.fence(), part, self._change_of, self.cancelled)

    def _require_lease(self, cause: Exception | None = None) -> None:
        if self.cancelled():
            raise Cancelled(
                f"{self._shard_id}: the lease of epoch {self._epoch} is gone"
            ) from cause

    def _warn(self, what: str) -> None:
        logger.warning("%s: %s %s", self._shard_id, type(self._consumer).__name__, what)


_PAUSES: Final = Retry()
_ANSWER_SECONDS: Final = 2.0
"""An answer ends the pause; without one the call is made again."""
_NO_PLACE: Final = "there is no place for dead letters: set failure = DeadLetter(to)"


def _cannot_park(key: str, letter_id: str) -> Call:
    raise ConfigurationError(f"no lease table keeps the parked key {key!r} of letter {letter_id}")


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
