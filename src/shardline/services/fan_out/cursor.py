"""Reading one shard by subscriptions, one after the other, and by polling while there is none.

| what happens | what is done |
|---|---|
| the subscription ends, as each does after five minutes | another one, after the last event |
| it is cut, garbled or silent | the same; polled until five seconds after it began have passed |
| it is refused, or another reader takes it over | polled; tried again after 5, 10, 20, … 60 s |
| it fails for good (credentials, a wrong place) | polled, and polling raises what is wrong |

Each event has a number after which the next subscription continues, also if it holds no record. It
is kept here alone: positions, checkpoints and gaps are about records, and that number names none.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from shardline.core.positions import SHARD_END, After, AtTime, Latest, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition, ShardlineError
from shardline.services.fan_out.port import (
    SubscriptionBroken,
    SubscriptionEnded,
    SubscriptionTaken,
)
from shardline.services.wire.columns import KINESIS_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.cursor import ShardCursor
    from shardline.services.fan_out.port import PushService, Subscription
    from shardline.services.port import Page
    from shardline.services.steps import Steps

logger = logging.getLogger(__name__)

TAKEOVER_SECONDS: Final = 5.25
"""The service refuses a subscription within five seconds of the one before."""
_LONGEST_RETRY_SECONDS: Final = 60.0
_SETTLED_SECONDS: Final = 60.0
"""A subscription that lasted this long shows that whatever refused the ones before is over."""
_FIRST_EVENT_SECONDS: Final = 5.0
_MARGIN: Final = timedelta(seconds=1)
"""The stamps of records are made on many machines, whose clocks differ a little."""
_NO_RECORDS: Final = pa.RecordBatch.from_pylist([], schema=KINESIS_COLUMNS)


class FanOutCursor:
    """A place in one shard that moves forward as it is pushed. Subscribes at the first read.

    `poll_from` makes the cursor that reads while there is no subscription. A read returns an empty
    page after `wait_seconds` without an event. Not for use by several threads at once.
    """

    def __init__(
        self,
        service: PushService,
        shard_id: str,
        position: Position,
        poll_from: Callable[[Position], ShardCursor],
        *,
        wait_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.shard_id: Final = shard_id
        self._service = service
        self._position = position
        self._poll_from = poll_from
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._place = position
        """Where the next subscription, or polling, continues: exact, after an empty event too."""
        self._subscription: Subscription | None = None
        self._subscribed_at = float("-inf")
        self._poller: ShardCursor | None = None
        self._retry_at = float("-inf")
        self._refusals = 0
        self._nothing_new: Page | None = None
        """An empty page that says of the tip what the last page said: nothing newer is known."""
        self._last_number: SequenceNumber | None = None

    @property
    def position(self) -> Position:
        """Where the next read starts: another cursor made there continues without loss.

        After "latest", and until a record has come, it is a time a little before.
        """
        return self._position

    @property
    def ended(self) -> bool:
        """True once everything in a closed shard has been read; it stays true."""
        return self._position == SHARD_END

    def read_steps(self, max_records: int) -> Steps[Page]:
        """Read the next page: what one event holds, or nothing new, or a page that was polled."""
        if self.ended:
            raise InvalidPosition(f"{self.shard_id} was read to its end: nothing is left to read")
        while True:
            if self._subscription is None and not self._is_due():
                return (yield from self._polled(max_records))
            if self._subscription is None:
                yield from self._subscribe()
                continue
            page = yield from self._pushed(self._subscription)
            if page is not None:
                return page

    def close(self) -> None:
        """End the subscription."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    # --- subscribing ----------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Return true if a subscription is to be asked for now.

        A poller that began at "latest" and has seen no record knows only a time: a subscription
        there would repeat what came before. It polls on until there is one.
        """
        if isinstance(self._place, Latest) and isinstance(self._position, AtTime):
            return False
        return self._clock() >= self._retry_at

    def _subscribe(self) -> Steps[None]:
        try:
            self._subscription = yield partial(self._service.subscribe, self.shard_id, self._place)
        except ShardlineError as error:
            self._poll_for_now(str(error))
        else:
            self._subscribed_at = self._clock()
            self._poller = None

    def _poll_for_now(self, reason: str) -> None:
        """Poll until the next try, a longer time after each refusal."""
        self._refusals += 1
        seconds = min(_LONGEST_RETRY_SECONDS, TAKEOVER_SECONDS * 2.0 ** (self._refusals - 1))
        self._retry_at = self._clock() + seconds
        self._service.report_polling(self.shard_id, reason, seconds)

    # --- reading --------------------------------------------------------------------------------

    def _pushed(self, subscription: Subscription) -> Steps[Page | None]:
        """Read an event; None if the subscription is over, or nothing has come yet at all."""
        wait = self._wait_seconds if self._nothing_new is not None else _FIRST_EVENT_SECONDS
        try:
            page: Page | None = yield partial(subscription.next, wait)
        except (SubscriptionEnded, SubscriptionBroken) as error:
            self._release()
            self._retry_at = self._subscribed_at + TAKEOVER_SECONDS
            left = self._retry_at - self._clock()
            if left > 0:
                self._service.report_polling(self.shard_id, str(error), left)
            elif isinstance(error, SubscriptionBroken):
                logger.info("%s; subscribing again", error)
            return None
        except SubscriptionTaken as error:
            self._release()
            self._poll_for_now(str(error))
            return None
        if page is None:
            return self._nothing_new
        page = self._without_repeats(page)
        if isinstance(self._position, Latest):
            behind = timedelta(milliseconds=page.behind_ms or 0)
            since = timedelta(seconds=self._clock() - self._subscribed_at)
            self._position = AtTime(page.service_time - behind - since - _MARGIN)
        self._note(page)
        if page.next_iterator is None:
            self.close()
            return page
        following = SequenceNumber(page.next_iterator)
        last = self._last_number
        self._place = After(following if last is None or following > last else last)
        return page

    def _polled(self, max_records: int) -> Steps[Page]:
        if self._poller is None:
            self._poller = self._poll_from(self._place)
        poller = self._poller
        page: Page = yield from poller.read_steps(max_records)
        self._note(page)
        if page.records.num_rows or not isinstance(self._place, Latest):
            self._place = poller.position
        else:
            self._position = poller.position
        return page

    def _release(self) -> None:
        """Close a subscription that is over. One that lasted clears the refusals before it."""
        self.close()
        if self._clock() - self._subscribed_at >= _SETTLED_SECONDS:
            self._refusals = 0

    def _note(self, page: Page) -> None:
        """Move the position to the end of a page."""
        rows = page.records.num_rows
        if rows:
            number = page.records.column("sequenceNumber")[rows - 1].as_py()
            self._last_number = SequenceNumber(number)
            self._position = After(self._last_number)
        if page.next_iterator is None:
            self._position = SHARD_END
        self._nothing_new = replace(page, records=_NO_RECORDS)

    def _without_repeats(self, page: Page) -> Page:
        """Drop records that an earlier page held: they come again only by a fault."""
        last, rows = self._last_number, page.records.num_rows
        numbers = page.records.column("sequenceNumber")
        if last is None or not rows or SequenceNumber(numbers[0].as_py()) > last:
            return page
        new = sum(SequenceNumber(number) > last for number in numbers.to_pylist())
        logger.warning("%s: the service repeated %d records", self.shard_id, rows - new)
        return replace(page, records=page.records.slice(rows - new))
