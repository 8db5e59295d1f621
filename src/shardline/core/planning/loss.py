"""What to do about records that may have expired unread: fail, or put the gap on record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardline.core.gaps import Evidence, Gap, Verdict, gap_at, judge, may_have_expired
from shardline.core.planning.state import with_gap
from shardline.core.positions import TRIM_HORIZON, After, Position
from shardline.errors import GapError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from shardline.core.planning.queries import Place
    from shardline.core.planning.state import PlanState
    from shardline.core.shards import Shard

AGED: Final = "its next records are older than what the stream keeps"
GONE: Final = "the service no longer has the shard"
TRIMMED: Final = "the service says that the position is trimmed"

_CHECKED_SECONDS: Final = 60.0
_CHECK_AGAIN_SECONDS: Final = 1.0


class LossPolicy:
    """Weighs what the service says about places, and remembers what was decided."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails
        self._pending: list[tuple[Gap, bool]] = []
        """Gaps that are accepted and in no committed offset yet; true: the shard is gone."""
        self._checked: dict[tuple[str, Position | None], float] = {}
        self.failure: GapError | None = None

    def weigh(
        self,
        shard_id: str,
        place: Place,
        evidence: Evidence,
        *,
        now: datetime,
        retention: timedelta,
    ) -> Verdict:
        """Return what the service's word about a place means; a gap is recorded."""
        verdict = judge(
            place.position, place.as_of, now=now, retention=retention, evidence=evidence
        )
        if verdict is Verdict.GAP:
            reason = {Evidence.GONE: GONE, Evidence.TRIMMED: TRIMMED}.get(evidence, AGED)
            gap = gap_at(
                shard_id, place.position, place.as_of, now=now, retention=retention, reason=reason
            )
            self.record(gap, gone=evidence is Evidence.GONE)
        return verdict

    def weigh_unseen(
        self,
        shard_id: str,
        children: Iterable[Shard],
        state: PlanState,
        *,
        now: datetime,
        retention: timedelta,
    ) -> None:
        """Record a gap if a shard came and went between two listings, with records unread.

        It descended from a shard that was known, so that it held nothing from before the time up
        to which those were read.
        """
        fresh = [
            child
            for child in children
            if child.id in state.places and not isinstance(state.places[child.id].position, After)
        ]
        since = state.read_since
        if not fresh or since is None or not may_have_expired(since, now=now, retention=retention):
            return
        hashes = [c.hash_range for c in fresh if c.hash_range is not None]
        taken = ", ".join(f"{keys.start} to {keys.end}" for keys in hashes)
        reason = "it came and went between two listings"
        if taken:
            reason += f", and took the hash keys {taken}"
        gap = gap_at(shard_id, TRIM_HORIZON, since, now=now, retention=retention, reason=reason)
        self.record(gap)

    def record(self, gap: Gap, *, gone: bool = False) -> None:
        """Fail, or put a gap on record."""
        if self._fails:
            self.failure = gap_error(gap)
        else:
            self._pending.append((gap, gone))

    def applied(self, state: PlanState, now: datetime) -> PlanState:
        """Return a state with all gaps that are not in a committed offset yet."""
        self._pending = [(gap, gone) for gap, gone in self._pending if gap not in state.gaps]
        for gap, gone in self._pending:
            state = with_gap(state, gap, gone=gone, now=now)
        return state

    def checked(self, shard_id: str, position: Position | None, now: float) -> None:
        """Record that the service was asked about a place, or about a whole shard."""
        self._checked[shard_id, position] = now

    def may_check(self, shard_id: str, position: Position | None, now: float) -> bool:
        """Return true if the service was not asked the same a moment ago."""
        checked_at = self._checked.get((shard_id, position))
        pause = _CHECK_AGAIN_SECONDS if position is None else _CHECKED_SECONDS
        return checked_at is None or now - checked_at >= pause


def gap_error(gap: Gap) -> GapError:
    """Return the error for a gap that the user has not accepted."""
    return GapError(
        f"{gap}. To go on with what is left, set failOnDataLoss to false; the gap is then kept in "
        "the offset"
    )
