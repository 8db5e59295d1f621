"""Plants known bugs in a copy of src/, one by one; a test that carries the id must fail each time.

`make mutants` looks for such bugs by simulation. This list is about proofs: an id on a test is a
claim that the test fails when that behaviour breaks, and here the claim is tried. A bug is a text
of a file and what stands there instead, so a change of that line makes the tool ask for a new one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.removed_guards import GUARDS
from tools.token_bugs import TOKEN_BUGS

ROOT: Final = Path(__file__).resolve().parent.parent
_MOST_SECONDS: Final = 240
_EDGES: Final = "tests/property/test_source_edges.py"
_STOPS: Final = "tests/property/test_source_stops.py"


@dataclass(frozen=True)
class PlantedBug:
    """A bug, and the test that must fail with it."""

    ids: str
    what: str
    path: str
    right: str
    wrong: str
    test: str


BUGS: Final = (
    PlantedBug(
        "K-08 K-33",
        "work starts although the lease was refused",
        "leases/member.py",
        "            self.handle(e.WriteRefused(instruction, conflict.current))",
        "            self.handle(e.WriteDone(instruction, sent_at, header))",
        "tests/unit/leases/test_member.py",
    ),
    PlantedBug(
        "K-14 K-25",
        "the leases of a runner that died are not taken anew",
        "consumer/worker.py",
        '        for key in sorted(self._running):\n            reason = f"the process',
        '        for key in ():\n            reason = f"the process',
        "tests/unit/consumer/test_worker.py",
    ),
    PlantedBug(
        "K-26 P-04 X-34",
        "a call of one shard's consumer holds the lock that all shards need",
        "consumer/loops.py",
        "            return call()",
        "            with self._lock:\n                return call()",
        "tests/unit/consumer/test_loops.py",
    ),
    PlantedBug(
        "K-27",
        "the first round that fails is the last one",
        "leases/row_rounds.py",
        '            member.warn("could not read or write rows", error)',
        "            member.error = error",
        "tests/unit/leases/test_row_rounds.py",
    ),
    PlantedBug(
        "K-34",
        "a page goes to the consumer without its last record",
        "consumer/delivery.py",
        "partial(self._consumer.process, self._batch(part))",
        "partial(self._consumer.process, self._batch(part.slice(1)))",
        "tests/unit/consumer/test_delivery.py",
    ),
    PlantedBug(
        "K-35 K-43",
        "the reader reads without demand",
        "consumer/pipeline.py",
        "            demand = self._ahead.demand()",
        "            demand = max(1, self._ahead.demand())",
        "tests/unit/consumer/test_pipeline.py",
    ),
    PlantedBug(
        "K-45 R-03 L-06",
        "a page is acknowledged when it was read",
        "consumer/pipeline.py",
        "                self._ahead.put(chunk)",
        "                self._ahead.put(chunk)\n"
        "                self._send(Acknowledged(self.key, chunk.after, as_of, None))",
        "tests/unit/consumer/test_pipeline.py",
    ),
    PlantedBug(
        "K-46 K-47 L-07",
        "a shard is called processed when it was read",
        "consumer/pipeline.py",
        "return self._read_to_end and self._ahead.records == 0 and len(self._watermark) == 0",
        "return self._read_to_end",
        "tests/unit/consumer/test_pipeline.py",
    ),
    PlantedBug(
        "K-51 W-18",
        "a stop gives leases back without waiting for the running deliveries",
        "consumer/worker.py",
        "        while self._running and self._runner is not None and self._clock() < deadline:",
        "        while False:",
        "tests/unit/consumer/test_worker.py",
    ),
    PlantedBug(
        "O-11",
        "a shard that was read to its end is read again",
        "core/lineage.py",
        "        if shard_id in drained:",
        "        if shard_id in drained and shard is None:",
        "tests/unit/streams/test_stream.py",
    ),
    PlantedBug(
        "O-13",
        "one lineage is read after the other",
        "core/lineage.py",
        "        return tuple(sorted(shards, key=_closing_order))",
        "        return tuple(sorted(shards, key=_closing_order)[:1])",
        "tests/unit/core/test_lineage.py",
    ),
    PlantedBug(
        "O-14",
        "the stream is listed once an hour",
        "core/leasing/listing_schedule.py",
        "        return self._asked_at + interval * (1 if on_duty else workers)",
        "        return self._asked_at + 3600",
        "tests/unit/leases/test_listings.py",
    ),
    PlantedBug(
        "X-10",
        "a worker that expects its app makes it",
        "leases/row_rounds.py",
        "        if not rows and self._expect_app:",
        "        if False:",
        "tests/unit/leases/test_row_rounds.py",
    ),
    PlantedBug(
        "X-19",
        "a letter is glued to a line that a crash cut short",
        "consumer/letters/folder.py",
        '            _write_all(file, b"\\n" + b"".join(',
        '            _write_all(file, b"".join(',
        "tests/unit/consumer/letters/test_folder.py",
    ),
    PlantedBug(
        "X-27",
        "an answer that is no JSON is taken for an empty one",
        "services/wire/handler.py",
        '        members = _decode(_members, response_dict["body"])',
        "        members = {}",
        "tests/unit/services/wire/test_handler.py",
    ),
    PlantedBug(
        "X-28",
        "leaving waits for a table that hangs",
        "leases/coordinator.py",
        "        last.join(max(0.0, ends_at - self._member.clock()))",
        "        last.join()",
        "tests/unit/leases/test_coordinator.py",
    ),
    PlantedBug(
        "X-29",
        "the clock of leases stands still while the machine sleeps",
        "leases/coordinator.py",
        "from shardline.services.clock import boot_seconds",
        "from time import monotonic as boot_seconds",
        "tests/unit/leases/test_coordinator.py",
    ),
    PlantedBug(
        "X-33",
        "a worker with nothing to do says that it starts",
        "leases/coordinator.py",
        '                return "nothing to do: every',
        '                return "starting: every',
        "tests/unit/leases/test_listings.py",
    ),
    PlantedBug(
        "X-35",
        "a shard is opened to learn the time",
        "leases/listings.py",
        "        self._member.wants_start = False",
        "        yield partial(self._service.open, shards[0].id, None)\n"
        "        self._member.wants_start = False",
        "tests/unit/leases/test_row_rounds.py",
    ),
    PlantedBug(
        "X-37",
        "an item that lacks a field is refused, though the field may be None",
        "tables/shapes.py",
        "        values: dict[str, Any] = dict(self._absent)",
        "        values: dict[str, Any] = {}",
        "tests/unit/tables/test_models.py",
    ),
    PlantedBug(
        "X-01",
        "a shard that appears later is as young as its first listing",
        "core/planning/state.py",
        "            else read_since or later_as_of(known_at=now, retention=retention)",
        "            else now",
        "tests/unit/core/planning/test_state.py",
    ),
    PlantedBug(
        "X-02",
        "a task near the horizon does not ask whether its beginning is kept",
        "spark/executor/range_reader.py",
        "        if isinstance(after, After) and not (yield from self._is_kept(after)):",
        "        if isinstance(after, After) and not ((yield from self._is_kept(after)) or True):",
        f"{_EDGES}::test_a_task_that_gets_its_core_too_late_fails_instead_of_reading_less",
    ),
    PlantedBug(
        "X-03",
        "after a start at a time, what the first listing lacks is skipped",
        "core/starts.py",
        "            for shard in strangers\n        },\n        frozenset(),",
        "            for shard in strangers\n            if shard.id not in ancestors\n"
        "        },\n        ancestors,",
        f"{_EDGES}::test_a_parent_that_the_first_listing_lacks_is_read_all_the_same",
    ),
    PlantedBug(
        "X-04 X-05",
        "an empty page is taken for the tip where the service never names it",
        "core/silence.py",
        "        if self._spent >= SILENCE:",
        "        if True:",
        f"{_EDGES}::test_a_bounded_read_goes_past_any_number_of_empty_pages "
        f"{_EDGES}::test_available_now_on_a_table_goes_past_any_number_of_empty_pages",
    ),
    PlantedBug(
        "X-05",
        "a range of a quiet table with a gap on record is read without end",
        "spark/executor/range_reader.py",
        "        return not (yield from self._is_kept(upto))",
        "        return not ((yield from self._is_kept(upto)) or True)",
        "tests/unit/spark/executor/test_range_reader.py",
    ),
    PlantedBug(
        "X-06",
        "a table's new stream is never asked for",
        "spark/driver/stream_plan.py",
        "        return newest.arn if newest.active and settled else None",
        "        return None",
        "tests/integration/test_source_successors.py",
    ),
    PlantedBug(
        "X-07",
        "a generation that came and went unseen is not weighed",
        "core/planning/loss.py",
        "        if not fresh or since is None",
        "        if True or since is None",
        f"{_EDGES}::test_a_generation_that_came_and_went_unseen_is_a_gap",
    ),
    PlantedBug(
        "X-08",
        "latest is resolved to the second where times are cut to the minute",
        "leases/row_rounds.py",
        "        start = AtTime(time.fromtimestamp(floor, time.tzinfo))",
        "        start = AtTime(time)",
        "tests/unit/leases/test_row_rounds.py",
    ),
    PlantedBug(
        "X-09",
        "an iterator that ends ends the shard, whatever the listing says",
        "core/planning/tips.py",
        "            if bounds.closed:\n                self.reached = Place(SHARD_END",
        "            if True:\n                self.reached = Place(SHARD_END",
        f"{_EDGES}::test_an_iterator_that_ends_in_an_open_shard_does_not_end_it",
    ),
    PlantedBug(
        "X-09",
        "a 200 without records is a page without records",
        "services/wire/kinesis.py",
        "    records: list[_Record]",
        "    records: list[_Record] = []",
        "tests/unit/services/wire/test_handler.py",
    ),
    PlantedBug(
        "X-11",
        "what is not found is gone, however young it is",
        "core/gaps.py",
        "    if aged:\n        return Verdict.GAP",
        "    if aged or evidence is Evidence.GONE:\n        return Verdict.GAP",
        "tests/unit/core/planning/test_loss.py",
    ),
    PlantedBug(
        "X-12",
        "a start at a time is looked for in children too",
        "core/planning/state.py",
        "            moved[shard_id] = Place(TRIM_HORIZON, place.as_of)",
        "            pass",
        "tests/unit/core/planning/test_state.py",
    ),
    PlantedBug(
        "X-13",
        "stray records are never dropped",
        "spark/executor/rows.py",
        "        shard_range=item.hash_range if options.drops_strays else None,",
        "        shard_range=None,",
        "tests/unit/spark/executor/test_rows.py",
    ),
    PlantedBug(
        "X-14",
        "each try of a delivery has the same fence",
        "consumer/delivery.py",
        "        return Fence(self._epoch, next(self._numbers))",
        "        return Fence(self._epoch, 1)",
        "tests/unit/consumer/test_delivery.py",
    ),
    PlantedBug(
        "X-15",
        "a child that waits does not move with its parent",
        "core/gaps.py",
        "    return max(own, min(known)) if known else own",
        "    return own",
        "tests/unit/core/planning/test_state.py",
    ),
    PlantedBug(
        "X-16",
        "only records count as progress of a task",
        "spark/executor/range_reader.py",
        "            if page.records.num_rows or (page.behind_ms and nearer):",
        "            if page.records.num_rows:",
        f"{_STOPS}::test_empty_pages_fail_no_task_while_the_lag_falls",
    ),
    PlantedBug(
        "X-21",
        "a horizon that moved while it was read is a gap",
        "core/gaps.py",
        "        return Verdict.HORIZON\n    return Verdict.AGAIN",
        "        return Verdict.HORIZON\n    return Verdict.GAP",
        f"{_STOPS}::test_a_horizon_that_moves_while_it_is_read_is_asked_for_again",
    ),
    PlantedBug(
        "X-22",
        "a read that ends counts what arrives after its start",
        "spark/driver/orders.py",
        "    return records if first == -1 else records.slice(0, first)",
        "    return records",
        "tests/unit/spark/driver/test_orders.py",
    ),
    PlantedBug(
        "X-23",
        "a failure of TLS or proxy is final",
        "services/failures.py",
        '{message}: {advice}"), True, no_contact=True',
        '{message}: {advice}"), False, no_contact=True',
        "tests/unit/services/test_calls.py",
    ),
    PlantedBug(
        "X-24",
        "pages of a quiet shard do not make what is known of it younger",
        "consumer/gap_watch.py",
        "            self.as_of = as_of_after_page(",
        "            _ = as_of_after_page(",
        "tests/unit/consumer/test_gap_watch.py",
    ),
    PlantedBug(
        "X-26",
        "a field of 128 bytes or more is cut",
        "services/wire/protobuf.py",
        "    size, after = _varint(message, at)\n    if after - at > _SHORT_BYTES:",
        "    size, after = message[at] & 0x7F, at + 1\n    if after - at > _SHORT_BYTES:",
        "tests/unit/services/test_aggregation.py",
    ),
    PlantedBug(
        "X-30",
        "a consumer that hangs is never abandoned",
        "consumer/runner.py",
        "if began is not None and now - began > self._job.stall_seconds:",
        "if False:",
        "tests/unit/consumer/test_pipeline.py",
    ),
    PlantedBug(
        "X-31",
        "the newest of the last clocks is believed",
        "core/planning/service_clock.py",
        "        self._middle = by_clock[(len(by_clock) - 1) // 2]",
        "        self._middle = by_clock[-1]",
        "tests/unit/core/planning/test_service_clock.py",
    ),
    PlantedBug(
        "X-31",
        "one empty listing is believed",
        "services/listing.py",
        "        if shards or not in_use:",
        "        if True:",
        "tests/unit/services/test_listing.py",
    ),
    PlantedBug(
        "Y-06",
        "the stream is described for every shard that is not found",
        "services/presence.py",
        "            self._seen_at = now",
        "            pass",
        "tests/unit/services/test_presence.py",
    ),
    PlantedBug(
        "Y-08",
        "every shard of a batch may take all its records",
        "core/planning/limits.py",
        "max(_SMALLEST_SHARE, max_records // max(1, shards))",
        "max_records",
        "tests/unit/core/planning/test_limits.py",
    ),
    *(PlantedBug(*bug) for bug in TOKEN_BUGS),
)


def main(words: list[str]) -> int:
    """Try every bug, or those whose ids or text have a word that was given; return 1 if missed."""
    bugs = [
        bug
        for bug in (*BUGS, *(PlantedBug(*guard) for guard in GUARDS))
        if not words or any(word in f"{bug.ids} {bug.what} {bug.path}" for word in words)
    ]
    for test in sorted({bug.test for bug in bugs}):  # each with options of its own
        if not _passes(test.split(), ROOT / "src"):
            sys.stdout.write(f"this fails without any bug: {test}\n")
            return 1
    missed = [bug for bug in bugs if not _is_caught(bug)]
    sys.stdout.write(f"{len(bugs) - len(missed)} of {len(bugs)} planted bugs caught\n")
    return 1 if missed else 0


def _is_caught(bug: PlantedBug) -> bool:
    with tempfile.TemporaryDirectory(prefix="planted-bug-") as folder:
        sources = Path(folder, "src")
        shutil.copytree(ROOT / "src", sources)
        file = sources / "shardline" / bug.path
        source = file.read_text(encoding="utf-8")
        if source.count(bug.right) != 1:
            sys.stdout.write(f"STALE   {bug.ids}: {bug.path} has no single {bug.right!r}\n")
            return False
        file.write_text(source.replace(bug.right, bug.wrong), encoding="utf-8")
        caught = not _passes(bug.test.split(), sources)
    sys.stdout.write(f"{'caught' if caught else 'MISSED'}  {bug.ids}: {bug.what}\n")
    sys.stdout.flush()
    return caught


def _passes(tests: list[str], sources: Path) -> bool:
    """Run tests with the code in a folder; raises if they could not be run at all."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "--timeout=60"]  # one that hangs fails
    command = [sys.executable, "-m", "pytest", *options, *tests]
    tried = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_MOST_SECONDS,
    )
    if tried.returncode not in (0, 1):
        raise RuntimeError(tried.stdout + tried.stderr)
    return tried.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
