"""Plans the batches of a query: a state machine that takes events and returns instructions.

The planner makes no calls. `handle` is its one door: it takes an event (Spark asks for a batch, a
listing came, a query about a shard was answered) and returns what to do next. Whoever runs it, a
pool of threads or a simulator, carries the instructions out and hands their results in as events.
`offer` returns the next batch once there is one.

While a batch runs, the search for the ends of the next one goes on; that plan is used only if
Spark asks for the batch after exactly the offset that was offered. A child is not searched before
the batch that ends its parents is committed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.gaps import Evidence, Verdict, may_have_expired
from shardline.core.offsets import Offset, Range
from shardline.core.planning import state as plan_state
from shardline.core.planning.events import (
    Asked,
    AskTime,
    Bookmarked,
    Check,
    Checked,
    Describe,
    Described,
    Event,
    GapAccepted,
    Instruction,
    List,
    Listed,
    Pin,
    Pinned,
    Question,
    Refused,
    TargetSet,
    Told,
    Woken,
)
from shardline.core.planning.loss import LossPolicy
from shardline.core.planning.queries import Answer, Kind, Place
from shardline.core.planning.schedule import REFUSED_SECONDS, Schedule, query_delay, wait_seconds
from shardline.core.planning.service_clock import ServiceClock
from shardline.core.planning.stream_view import StreamView
from shardline.core.planning.target import Target
from shardline.core.planning.tips import Taken, Tip
from shardline.core.planning.turns import Turns
from shardline.core.positions import LATEST, TRIM_HORIZON, After, Position, ShardEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shardline.core.planning.limits import Bounds, Settings
    from shardline.core.shards import Shard
    from shardline.errors import ShardlineError

_IDLE_REFRESH: Final = timedelta(hours=1)
"""An idle query writes down this often that nothing unread was there."""

_GATHER_SECONDS: Final = 0.15
"""How long a plan that has records waits for other shards, so that a batch holds all of them."""

_EVENTS_KEPT: Final = 1_000


class Planner:
    """Plans one query's batches. Not for use by several threads at once."""

    def __init__(self, settings: Settings) -> None:
        self.settings: Final = settings
        self.clock: Final = ServiceClock()
        self.events: Final[deque[tuple[float, Event]]] = deque(maxlen=_EVENTS_KEPT)
        """The last events, oldest first: a log that replays."""
        self.offered: Offset | None = None
        """The newest plan: committed, running, or not begun yet."""
        self.taken: dict[str, Taken] = {}
        """The ranges of the offered plan that hold records."""
        self._stream: Final = StreamView()
        self._schedule: Final = Schedule()
        self._loss: Final = LossPolicy(fails=settings.fail_on_data_loss)
        self._failure: ShardlineError | None = None
        self._question: Question | None = None
        self._held_since: float | None = None
        self._found_since: float | None = None
        self._state: plan_state.PlanState | None = None
        self._tips: Final[dict[str, Tip]] = {}
        self._bookmarks: Final[dict[str, float]] = {}
        self._turns: Final = Turns()
        self._target: Target | None = None
        self._target_wanted = False

    # --- the door -----------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> tuple[Instruction, ...]:
        """Take in an event; return what to do next. `now` is seconds on a steady clock."""
        self.events.append((now, event))
        match event:
            case Asked():
                self._spark_asks(event, now)
            case TargetSet():
                self._target_wanted = True
            case Listed(shards):
                self._schedule.end(List, now)
                state = self._state
                in_use = state.known if state is not None else ()
                if self._stream.take_listing(shards, now, in_use) and (state is None or self._idle):
                    self._settle(now)
            case Described():
                self._schedule.end(Describe, now)
                self._stream.take_description(event, now)
                if event.service_time is not None:
                    self.clock.told(event.service_time, now)
                if self._state is None:
                    self._settle(now)
            case Told(service_time):
                self._schedule.end(AskTime, now)
                self.clock.told(service_time, now)
                self._settle(now)
            case Answer():
                self._take_answer(event, now)
            case Pinned(shard_id, place):
                self._schedule.end(shard_id, now)
                self._replace_place(shard_id, place)
            case Bookmarked(shard_id):
                self._schedule.end(shard_id, now)
                self._bookmarks[shard_id] = now
            case Refused(query, evidence):
                self._take_refusal(query.shard_id, evidence, now)
            case Checked():
                self._take_check(event, now)
            case GapAccepted(gap):
                self._loss.record(gap)
        return tuple(self._instructions(event, now))

    def offer(self, now: float) -> Offset | None:
        """Return the batch after the committed one, once there is one to run."""
        failure = self._failure or self._loss.failure
        if failure is not None:
            raise failure
        question = self._question
        if question is None or self._state is None or not self._may_offer(now):
            return None
        if not self._idle:
            return self.offered  # asked twice: an end never falls
        committed = question.asked.committed
        if self._found_since is None and any(tip.found for tip in self._tips.values()):
            self._found_since = now
        # The batch that writes down what "latest" means waits for nothing, and holds nothing.
        pins = committed.created_at is None and committed.start == LATEST
        if not pins and self._gathers(now):
            return None
        planned, chosen = self._plan(now, pins=pins)
        if not (
            plan_state.holds_news(committed, planned)
            or plan_state.is_stale(committed, planned, after=_IDLE_REFRESH)
        ):
            if question.asked.all_available:
                self._target = None  # reached: a later question has a later one
            return None
        self.taken = {shard_id: self._tips[shard_id].take() for shard_id in chosen}
        self._turns.took(chosen)
        self.offered, self._held_since, self._found_since = planned, None, None
        return planned

    def waits(self, now: float) -> bool:
        """Return true if Spark should wait: an answer is under way that the plan needs."""
        if self._failure is not None or self._loss.failure is not None:
            return False
        if self._state is None or self._unpinned():
            return True
        if self._target is not None:
            return not self._target_reached()
        return self._gathers(now)

    @property
    def retention(self) -> timedelta:
        """How long the stream keeps a record."""
        return self._stream.retention

    @property
    def shards(self) -> Iterable[Shard]:
        """The shards as last listed."""
        return self._stream.listed.values()

    @property
    def wake_at(self) -> float | None:
        """When to hand in `Woken`, in seconds on the steady clock; None: not needed."""
        times = [self._schedule.next_due]
        if not self._schedule.is_under_way(List):
            times.append(self._stream.list_at)
        if not self._schedule.is_under_way(Describe):
            times.append(self._stream.describe_at)
        return min((time for time in times if time is not None), default=None)

    # --- events -------------------------------------------------------------------------------

    def _spark_asks(self, asked: Asked, now: float) -> None:
        before = self._question
        again = (
            before is not None
            and self._state is not None
            and before.asked.committed == asked.committed
        )
        at = before.at if again and before is not None else now
        self._question = Question(asked, at, again)
        if asked.all_available and (not again or self._target is None):
            self._target, self._target_wanted = None, True
        if again:
            self._set_target(now)
            return
        if asked.committed != self.offered:
            self._tips.clear()  # planned by another process, or not at all
            self._bookmarks.clear()
            self.offered = None
        self._settle(now)

    def _take_answer(self, answer: Answer, now: float) -> None:
        shard_id = answer.query.shard_id
        self._schedule.end(shard_id, now)
        self.clock.told(answer.service_time, now)
        if answer.query.kind is Kind.BOOKMARK:
            self._bookmarks.pop(shard_id, None)
        tip = self._tips.get(shard_id)
        # After a long stop, records may have expired between the place and this answer.
        if tip is not None and not self._is_suspect(shard_id, tip, now):
            tip.answered(answer, self._bounds(shard_id, now))
        if answer.ended and not self._stream.is_closed(shard_id):
            self._stream.list_soon(now)

    def _take_refusal(self, shard_id: str, evidence: Evidence, now: float) -> None:
        self._schedule.end(shard_id, now + REFUSED_SECONDS)
        if evidence is Evidence.GONE:
            self._stream.list_soon(now)  # whether it is gone is decided from a listing
        else:
            self._weigh(shard_id, evidence, now)

    def _take_check(self, event: Checked, now: float) -> None:
        shard_id, state = event.shard_id, self._state
        self._schedule.end(shard_id, now)
        self._loss.checked(shard_id, event.position, now)
        if state is None:
            return
        kept = event.evidence is Evidence.KEPT
        if event.position is None and (kept or self._stream.predates(shard_id)):
            self._stream.list_soon(now)
        elif kept:
            return
        elif event.position is not None or shard_id in state.places:
            self._weigh(shard_id, event.evidence, now)
        else:
            view, time = self._stream, self.clock.time(now)
            view.gone.add(shard_id)
            children = [s for s in view.listed.values() if shard_id in s.parents]
            self._loss.weigh_unseen(shard_id, children, state, now=time, retention=view.retention)
            self._settle(now)

    def _weigh(self, shard_id: str, evidence: Evidence, now: float) -> None:
        """Decide what the service's word about a shard means, and act on it."""
        state, tip = self._state, self._tips.get(shard_id)
        if state is None or shard_id not in state.places:
            return
        place = tip.base if tip is not None else state.places[shard_id]
        verdict = self._loss.weigh(
            shard_id,
            place,
            evidence,
            now=self.clock.time(now),
            retention=self._stream.retention,
        )
        if verdict is Verdict.HORIZON:
            self._replace_place(shard_id, Place(TRIM_HORIZON, place.as_of))
        elif verdict is Verdict.AGAIN:
            self._stream.gone.discard(shard_id)
            self._stream.list_soon(now)
        elif verdict is Verdict.GAP:
            self._loss.checked(shard_id, TRIM_HORIZON, now)
            self._tips.pop(shard_id, None)
            self._settle(now)

    # --- where things stand -------------------------------------------------------------------

    @property
    def _idle(self) -> bool:
        """Return true if Spark has asked, and no batch was offered since."""
        return self._question is not None and (
            self.offered is None or self.offered == self._question.asked.committed
        )

    def _settle(self, now: float) -> None:
        """Work out the places of all shards from the committed offset and the last listing."""
        stream = self._stream
        known = stream.listed and self.clock.known
        if self._question is None or stream.created_at is None or not known:
            return
        committed = self._question.asked.committed
        self._failure = stream.mismatch(committed)
        if self._failure is not None:
            return
        time = self.clock.time(now)
        state = self._state = self._loss.applied(
            plan_state.state_after(
                committed,
                stream.listed.values(),
                stream=stream.arn,
                created_at=stream.created_at,
                now=time,
                retention=stream.retention,
                gone=stream.gone,
            ),
            time,
        )
        self._set_target(now)
        for shard_id in self._tips.keys() - state.places.keys():
            del self._tips[shard_id]
        for shard_id in self._readable(state):
            place = state.places[shard_id]
            if self._is_planned_beyond(shard_id, place.position):
                continue  # its next place is known when that batch is committed
            if shard_id not in self._tips and place.position != LATEST:
                self._tips[shard_id] = Tip(shard_id, place)
        for shard_id in state.lineage.gaps:
            self._weigh(shard_id, Evidence.GONE, now)

    def _is_planned_beyond(self, shard_id: str, position: Position) -> bool:
        """Return true if a batch that is not committed yet moves a shard from its place."""
        if self._idle or self.offered is None:
            return False
        planned = self.offered.ranges.get(shard_id)
        return planned is not None and planned.upto != position

    def _set_target(self, now: float) -> None:
        time, listed = self.clock.time(now), self._stream.listed
        if self._target is not None:
            self._target = self._target.joined(listed, time)
        if not self._target_wanted or self._target is not None or not self._stream.whole:
            return
        self._target = Target.at(time, listed, wants_children=self.settings.finds_times)
        for tip in self._tips.values():
            tip.at_tip = False  # that was said before the target was set

    def _readable(self, state: plan_state.PlanState) -> Iterator[str]:
        counting = state.places if self._target is None else self._target.shards
        return (shard_id for shard_id in state.readable if shard_id in counting)

    def _unpinned(self) -> list[str]:
        places = self._state.places if self._state is not None else {}
        return [k for k, place in places.items() if place.position == LATEST]

    def _replace_place(self, shard_id: str, place: Place) -> None:
        if self._state is not None and shard_id in self._state.places:
            self._state = replace(self._state, places={**self._state.places, shard_id: place})
            self._tips[shard_id] = Tip(shard_id, place)

    def _suspects(self, now: float) -> Iterator[tuple[str, Position]]:
        """Yield the shards whose unread records may have expired, by their age alone."""
        for shard_id, tip in list(self._tips.items()):
            if self._is_suspect(shard_id, tip, now):
                yield shard_id, tip.base.position

    def _is_suspect(self, shard_id: str, tip: Tip, now: float) -> bool:
        position, time = tip.base.position, self.clock.time(now)
        if not may_have_expired(tip.base.as_of, now=time, retention=self._stream.retention):
            return False
        if isinstance(position, After) and not self.settings.finds_times:
            return False  # DynamoDB Streams refuses a trimmed position
        return self._loss.may_check(shard_id, position, now)

    # --- plans --------------------------------------------------------------------------------

    def _may_offer(self, now: float) -> bool:
        if self._question is None or self._unpinned():
            return False
        if self._question.asked.all_available:
            return self._target_reached()
        return next(self._suspects(now), None) is None

    def _gathers(self, now: float) -> bool:
        """Return true if a plan a little later would hold much more."""
        waited = now - self._question.at if self._question is not None else 0.0
        under_way = self._schedule.of(self._tips)
        if self._found_since is not None and now - self._found_since < _GATHER_SECONDS:
            return bool(under_way)
        time = self.clock.time(now)
        return any(waited < wait_seconds(self._tips[shard_id], time) for shard_id in under_way)

    def _target_reached(self) -> bool:
        if self._target is None or self._state is None or self._question is None:
            return False
        once = self._question.asked.all_available
        return self._target.is_reached(self._state, self._tips, once=once)

    def _plan(self, now: float, *, pins: bool) -> tuple[Offset, list[str]]:
        """Return the next batch, and the shards that have records in it; if it `pins`, none."""
        if self._state is None or self._question is None:
            raise AssertionError("a plan needs a committed offset and a listing")
        found = {k: tip for k, tip in self._tips.items() if tip.found}
        most = {k: tip.most_records(self._bounds(k, now)) for k, tip in found.items()}
        chosen = [] if pins else self._turns.choose(most, self._question.asked.max_records)
        if self._are_too_few(chosen, sum(most[k] for k in chosen), now):
            chosen = []
        ranges: dict[str, Range] = {}
        for shard_id, tip in self._tips.items():
            start, end = tip.base.position, tip.base
            if shard_id in chosen:
                start, end = tip.begins or start, tip.reached
            ranges[shard_id] = Range(start, end.position, end.as_of)
        return plan_state.next_offset(self._state, ranges), chosen

    def _are_too_few(self, chosen: list[str], records: int, now: float) -> bool:
        """Return true if the batch should wait for more records."""
        settings = self.settings
        if records >= settings.min_records or not chosen or self._target is not None:
            return False
        if any(isinstance(self._tips[k].reached.position, ShardEnd) for k in chosen):
            return False
        self._held_since = now if self._held_since is None else self._held_since
        return now - self._held_since < settings.max_delay_seconds

    def _bounds(self, shard_id: str, now: float) -> Bounds:
        asked = self._question.asked if self._question is not None else None
        closed = self._stream.is_closed(shard_id)
        until = self._target.until if self._target is not None and not closed else None
        return self.settings.bounds(
            now=self.clock.time(now),
            closed=closed,
            until=until,
            shards=len(self._tips),
            max_records=asked.max_records if asked is not None else None,
        )

    # --- instructions -------------------------------------------------------------------------

    def _instructions(self, event: Event, now: float) -> Iterator[Instruction]:
        if self._failure is not None or self._loss.failure is not None:
            return
        stream = self._stream
        if now >= stream.list_at and self._schedule.begin(List):
            yield List()
        if now >= stream.describe_at and self._schedule.begin(Describe):
            yield Describe()
        ask_time = stream.listed and stream.created_at is not None and not self.clock.known
        if ask_time and self._schedule.begin(AskTime):
            yield AskTime(next(reversed(stream.listed)))
        if self._state is None:
            return
        yield from self._checks(self._state, now)
        for shard_id in self._unpinned():
            if self._schedule.begin(shard_id):
                yield Pin(shard_id)
        for shard_id in (*self._shards_of(event), *self._schedule.take_due(now)):
            yield from self._query(shard_id, now)

    def _checks(self, state: plan_state.PlanState, now: float) -> Iterator[Instruction]:
        for shard_id in state.lineage.undiscovered:
            if shard_id in self._stream.gone or not self._loss.may_check(shard_id, None, now):
                continue
            if self._schedule.begin(shard_id):
                yield Check(shard_id, None)
        for shard_id, position in list(self._suspects(now)):
            if not isinstance(position, After):
                self._weigh(shard_id, Evidence.NONE, now)
            elif self._schedule.begin(shard_id):
                yield Check(shard_id, position)

    def _shards_of(self, event: Event) -> Iterable[str]:
        """Return the shards that may need a query after an event."""
        match event:
            case Answer(query) | Refused(query):
                return (query.shard_id,)
            case Pinned(shard_id) | Checked(shard_id) | Bookmarked(shard_id):
                return (shard_id,)
            case Asked() if self._question is not None and self._question.again:
                return tuple(self._bookmarks)
        return () if isinstance(event, Woken) else tuple(self._tips)

    def _query(self, shard_id: str, now: float) -> Iterator[Instruction]:
        tip = self._tips.get(shard_id)
        if tip is None or self._schedule.is_under_way(shard_id):
            return
        bounds = self._bounds(shard_id, now)
        tip.settle(bounds)
        has_bookmark = shard_id in self._bookmarks
        query = tip.next_query(bounds, bookmark=has_bookmark)
        if query is None:
            return
        if query.kind is Kind.BOOKMARK and not self._idle:
            query = replace(query, kind=Kind.SET_BOOKMARK)  # a later one, for the next plan
        runs, shards, taken = not self._idle, len(self._tips), self.taken.get(shard_id)
        is_read = runs and taken is not None and taken.inline is None
        delay = query_delay(
            tip, query, runs=runs, is_read=is_read, bookmark=has_bookmark, shards=shards
        )
        if not self._schedule.postpone(shard_id, delay, now):
            self._schedule.begin(shard_id)
            yield query
