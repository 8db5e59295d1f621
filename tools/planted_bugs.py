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

ROOT: Final = Path(__file__).resolve().parent.parent
_MOST_SECONDS: Final = 240


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
        "X-14",
        "each try of a delivery has the same fence",
        "consumer/delivery.py",
        "        return Fence(self._epoch, next(self._numbers))",
        "        return Fence(self._epoch, 1)",
        "tests/unit/consumer/test_delivery.py",
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
        "X-30",
        "a consumer that hangs is never abandoned",
        "consumer/runner.py",
        "if began is not None and now - began > self._job.stall_seconds:",
        "if False:",
        "tests/unit/consumer/test_pipeline.py",
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
)


def main() -> int:
    """Try every bug, or those whose ids or text have a word that was given; return 1 if missed."""
    words = sys.argv[1:]
    bugs = [
        bug
        for bug in (*BUGS, *(PlantedBug(*guard) for guard in GUARDS))
        if not words or any(word in f"{bug.ids} {bug.what} {bug.path}" for word in words)
    ]
    for test in sorted({bug.test for bug in bugs}):
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
    sys.exit(main())
