"""What the service's word about a place means for a query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.gaps import Evidence, Verdict
from shardline.core.offsets import Offset, Range
from shardline.core.planning.loss import LossPolicy
from shardline.core.planning.queries import Place
from shardline.core.planning.state import state_after
from shardline.core.positions import TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import GapError

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY = timedelta(hours=24)
RECORD = After(SequenceNumber("7"))


def weigh(policy: LossPolicy, age: timedelta, evidence: Evidence) -> Verdict:
    return policy.weigh("a", Place(RECORD, NOON - age), evidence, now=NOON, retention=DAY)


@pytest.mark.case("X-11")
def test_what_is_younger_than_the_retention_is_never_lost() -> None:
    policy = LossPolicy(fails=True)
    assert weigh(policy, DAY / 2, Evidence.GONE) is Verdict.AGAIN
    assert weigh(policy, DAY / 2, Evidence.TRIMMED) is Verdict.HORIZON
    assert weigh(policy, 2 * DAY, Evidence.KEPT) is Verdict.SAFE
    assert policy.failure is None


def test_a_gap_is_an_error_that_names_shard_and_place() -> None:
    policy = LossPolicy(fails=True)
    assert weigh(policy, 2 * DAY, Evidence.TRIMMED) is Verdict.GAP
    assert isinstance(policy.failure, GapError)
    assert "gap in a after 7" in str(policy.failure)


def test_a_gap_that_is_accepted_is_kept_until_it_is_in_a_committed_offset() -> None:
    policy = LossPolicy(fails=False)
    assert weigh(policy, 2 * DAY, Evidence.TRIMMED) is Verdict.GAP
    assert policy.failure is None
    committed = Offset(TRIM_HORIZON, NOON - 3 * DAY, {"a": Range(RECORD, RECORD, NOON - 2 * DAY)})
    state = state_after(
        committed, [Shard("a")], stream="s", created_at=NOON - 3 * DAY, now=NOON, retention=DAY
    )
    applied = policy.applied(state, NOON)
    assert [gap.shard_id for gap in applied.gaps] == ["a"]
    assert applied.places["a"].position == TRIM_HORIZON
    assert policy.applied(state, NOON) == applied
    assert policy.applied(applied, NOON).gaps == applied.gaps


def test_the_service_is_not_asked_the_same_again_at_once() -> None:
    policy = LossPolicy(fails=True)
    assert policy.may_check("a", RECORD, 0.0)
    policy.checked("a", RECORD, 0.0)
    assert not policy.may_check("a", RECORD, 30.0)
    assert policy.may_check("a", RECORD, 61.0)
    policy.checked("a", None, 0.0)
    assert policy.may_check("a", None, 2.0)
