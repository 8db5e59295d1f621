"""Hands a task's rows to the user's consumer, shard by shard, under its failure policy."""

from __future__ import annotations

import itertools
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.consumer.policies import DeadLetter, Halt, Retry
from shardline.core.fences import Fence
from shardline.spark.executor.fencing import ENDED, EPOCH, EVENT, STARTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shardline.consumer.dead_letters import LetterWriter

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """What became of a task's records."""

    processed: int = 0
    bytes: int = 0
    retries: int = 0
    dead_letters: int = 0
    lost_leases: int = 0


class Delivering:
    """One task's deliveries."""

    def __init__(
        self,
        consumer: ShardConsumer,
        *,
        batch: int,
        attempt: int,
        still_held: Callable[[str, int], bool] = lambda shard_id, epoch: True,  # noqa: ARG005
        dead_letters: LetterWriter | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.counts = Counts()
        self._consumer = consumer
        self._batch, self._attempt = batch, attempt
        self._still_held = still_held
        self._dead_letters = dead_letters
        self._sleep = sleep
        self._lost: set[str] = set()

    def run(self, rows: Iterable[pa.RecordBatch]) -> Counts:
        """Deliver everything in order. What the policy does not forgive is raised."""
        for shard_id, epoch, event, part in _parts(rows):
            fence = Fence(epoch, self._batch * 100 + self._attempt)
            if shard_id in self._lost or not self._holds(shard_id, epoch):
                continue
            if event == STARTED:
                self._consumer.shard_started(shard_id, fence)
            elif event == ENDED:
                self._consumer.shard_ended(shard_id)
            else:
                self._deliver(ShardBatch(shard_id, fence, part))
        return self.counts

    def _holds(self, shard_id: str, epoch: int) -> bool:
        """Ask the lease table again: what the driver planned may be another worker's by now."""
        if self._still_held(shard_id, epoch):
            return True
        self._lost.add(shard_id)
        self.counts.lost_leases += 1
        logger.warning(
            "%s: another worker has the lease now (ours was of epoch %d); its records are left to "
            "that one",
            shard_id,
            epoch,
        )
        self._consumer.lease_lost(shard_id)
        return False

    def _deliver(self, batch: ShardBatch) -> None:
        match self._consumer.failure:
            case Halt():
                self._try_or_halt(batch, Retry(attempts=1))
            case Retry() as retry:
                self._try_or_halt(batch, retry)
            case DeadLetter() as policy:
                self._try_or_put_aside(batch, policy)

    def _try_or_halt(self, batch: ShardBatch, retry: Retry) -> None:
        try:
            self._try(batch, retry)
        except Exception as error:
            logger.error(  # noqa: TRY400 - Spark shows the trace to whoever asks for it
                "%s: %s failed on %d records (%s); nothing is acknowledged behind them, and this "
                "worker stops",
                batch.shard_id,
                type(self._consumer).__name__,
                len(batch),
                _reason(error),
            )
            raise

    def _try(self, batch: ShardBatch, retry: Retry) -> None:
        """Process until that succeeds, the lease is lost, or no attempt is left."""
        for attempt in range(1, retry.attempts + 1):
            try:
                self._consumer.process(batch)
            except Exception as error:
                if attempt == retry.attempts:
                    raise
                delay = retry.delay_seconds(attempt)
                self.counts.retries += 1
                logger.warning(
                    "%s: %s failed on %d records (%s); attempt %d of %d in %.1f s",
                    batch.shard_id,
                    type(self._consumer).__name__,
                    len(batch),
                    _reason(error),
                    attempt + 1,
                    retry.attempts,
                    delay,
                )
                self._sleep(delay)
                if not self._holds(batch.shard_id, batch.fence.epoch):
                    return
            else:
                self.counts.processed += len(batch)
                self.counts.bytes += batch.arrow.nbytes
                return

    def _try_or_put_aside(self, batch: ShardBatch, policy: DeadLetter) -> None:
        try:
            self._try(batch, Retry(policy.attempts))
        except Exception as error:
            if policy.per == "record" and len(batch) > 1:
                for row in range(len(batch)):
                    if batch.shard_id in self._lost or not self._holds(
                        batch.shard_id, batch.fence.epoch
                    ):
                        return
                    one = ShardBatch(batch.shard_id, batch.fence, batch.arrow.slice(row, 1))
                    self._try_or_put_aside(one, policy)
                return
            if self._dead_letters is None:
                raise
            self._dead_letters.write(batch, _reason(error))
            self.counts.dead_letters += len(batch)
            logger.warning(
                "%s: put %d records aside to %s: %s",
                batch.shard_id,
                len(batch),
                policy.to,
                _reason(error),
            )


def _parts(
    rows: Iterable[pa.RecordBatch],
) -> Iterator[tuple[str, int, str | None, pa.RecordBatch]]:
    """Cut batches where the shard changes, and around events; drop the columns of the fence."""
    for batch in rows:
        count = batch.num_rows
        if not count:
            continue
        shard_ids, events = batch.column("shardId"), batch.column(EVENT)
        is_event = pc.is_valid(events)
        changes = pc.or_(
            pc.not_equal(shard_ids.slice(1), shard_ids.slice(0, count - 1)),
            pc.or_(is_event.slice(1), is_event.slice(0, count - 1)),
        )
        cuts = [0, *(i + 1 for i in pc.indices_nonzero(changes).to_pylist()), count]
        records = batch.drop_columns([EPOCH, EVENT])
        for begin, end in itertools.pairwise(cuts):
            yield (
                shard_ids[begin].as_py(),
                batch.column(EPOCH)[begin].as_py(),
                events[begin].as_py(),
                records.slice(begin, end - begin),
            )


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().replace("\n", " ")
