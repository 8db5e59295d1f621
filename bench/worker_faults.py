"""How kills, deploys and a hanging consumer of `shardline run --engine process` are felt.

    python -m bench.worker_faults kills --table postgresql --kills 30
    python -m bench.worker_faults deploy
    python -m bench.worker_faults hang

Prints one object of JSON. Times are ratios to the lease time, or to the time before in the same
run; what was delivered is judged by the promise checker: a loss or a wrong order is an error.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shardline.cli.demo.recorder import Recorder
from shardline.core.promise import PromiseChecker, RecordRef
from tests import servers
from tests.integration.lease_places import TABLES, lease_place
from tests.integration.worker_runs import LEASE_SECONDS, Stage, stage_on, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.consumer.consumer import ShardBatch
    from tests.integration.worker_runs import Run

TIMED: Final = "bench.worker_faults:Timed"
FULL_RECORDS_PER_SECOND: Final = 1000
PUTS_PER_SECOND: Final = 4
KEYS_PER_SHARD: Final = 20


class Timed(Recorder):
    """Also writes down how long after its arrival the oldest record of a delivery came."""

    def process(self, batch: ShardBatch) -> None:
        super().process(batch)
        oldest = batch.arrow.column("approximateArrivalTimestamp")[0].as_py()
        self._write("late", batch.shard_id, seconds=time.time() - oldest.timestamp())


class FullShards:
    """Writes as much as each shard takes; a stand-in for `Traffic` with records of 1 KB."""

    def __init__(self, stage: Stage) -> None:
        self._client = stage.client
        shards = stage.client.list_shards(StreamName="orders")["Shards"]
        self._places = [int(s["HashKeyRange"]["StartingHashKey"]) + 1 for s in shards]
        self._written: list[tuple[str, RecordRef]] = []
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(i,), daemon=True)
            for i in range(len(self._places))
        ]
        for thread in self._threads:
            thread.start()

    def report_to(self, checker: PromiseChecker) -> None:
        for shard_id, record in list(self._written):
            checker.wrote(shard_id, record)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    end = stop

    def _write(self, shard: int) -> None:
        data, count = bytes(1000), FULL_RECORDS_PER_SECOND // PUTS_PER_SECOND
        keys = [f"key-{shard}-{n % KEYS_PER_SHARD}" for n in range(count)]
        place = str(self._places[shard])
        records = [{"PartitionKey": k, "Data": data, "ExplicitHashKey": place} for k in keys]
        next_at = time.monotonic()
        while not self._stopping.wait(max(0.0, next_at - time.monotonic())):
            next_at += 1 / PUTS_PER_SECOND
            answers = self._client.put_records(StreamName="orders", Records=records)["Records"]
            for key, answer in zip(keys, answers, strict=True):
                if "SequenceNumber" in answer:  # a refused one was not written
                    record = RecordRef(key, int(answer["SequenceNumber"]))
                    self._written.append((answer["ShardId"], record))


def first_after(runs: list[Run], shard_id: str, at: float) -> float | None:
    """Return when a shard was first delivered after a moment, by any of these runs."""
    times = []
    for run in runs:
        run.log.read_on()
        times += [x.at for x in run.log.lines
                  if x.what == "delivered" and x.shard_id == shard_id and x.at > at]  # fmt: skip
    return min(times, default=None)


def last_before(run: Run, shard_id: str) -> float:
    run.log.read_on()
    return max(x.at for x in run.log.lines if x.what == "delivered" and x.shard_id == shard_id)


def owned(run: Run, seconds: float = 1.0) -> set[str]:
    return run.shards_since(time.time() - seconds)


def has_share(run: Run) -> bool:
    return len(owned(run)) > 1


def all_delivered(runs: list[Run], shards: set[str], at: float) -> bool:
    """Return true if something of every shard was delivered after a moment."""
    return all(first_after(runs, shard_id, at) for shard_id in shards)


def kills(stage: Stage, count: int) -> dict[str, Any]:
    """Kill one worker after the other, and start a new one for each."""
    stage.write(keys=60, pause_seconds=0.004)
    names = (f"worker-{n}" for n in itertools.count())
    runs = [stage.start(next(names)) for _ in range(3)]
    wait_until(lambda: all(run.delivered() for run in runs), "all deliver")
    samples: list[float] = []
    for _ in range(count):
        wait_until(lambda: all(owned(run) for run in runs), "all work")
        victim = runs.pop(0)
        shards, at = owned(victim), time.time()
        victim.kill_all()
        wait_until(partial(all_delivered, runs, shards, at), "every shard of it has an owner")
        samples += [first - at for s in shards if (first := first_after(runs, s, at))]
        runs.append(stage.start(next(names)))  # not before: it would take part in the fail-over
    return {"kills": count, **ratios("fail_over", samples)}


def deploy(stage: Stage, rounds: int) -> dict[str, Any]:
    """Let workers join and leave by SIGTERM, under full shards."""
    stage.use(FullShards(stage))
    names = (f"worker-{n}" for n in itertools.count())
    runs = [stage.start(next(names)) for _ in range(2)]
    wait_until(lambda: all(run.delivered() for run in runs), "both deliver")
    samples: list[float] = []
    for _ in range(rounds):
        joining = stage.start(next(names))
        runs.append(joining)
        wait_until(partial(has_share, joining), "the new one has a share")
        leaving = runs.pop(0)
        shards, at = owned(leaving), time.time()
        if leaving.end() != 0:
            raise AssertionError(f"{leaving.name} did not stop well: {leaving.output[-500:]}")
        wait_until(partial(all_delivered, runs, shards, at), "every shard of it has an owner")
        for shard_id in shards:
            last = last_before(leaving, shard_id)
            first = first_after(runs, shard_id, last)
            samples += [first - last] if first else []
    return {"deploys": rounds, "hand_over_seconds": spread(samples), "samples": len(samples)}


def hang(stage: Stage, seconds: float) -> dict[str, Any]:
    """Let the consumer of one shard hang, and compare the delay of the others with before."""
    stage.use(FullShards(stage))
    run = stage.start("worker", consumer=TIMED)
    wait_until(lambda: len(run.shards_since(0)) == len(stage.shard_ids()), "it has every shard")
    time.sleep(seconds)  # what is measured takes that long
    hung, at = stage.shard_ids()[0], time.time()
    (stage.folder / "hang").write_text(hung)
    time.sleep(seconds)
    ended = time.time()
    (stage.folder / "hang").unlink()
    before, meanwhile = lateness(run, hung, at - seconds, at), lateness(run, hung, at, ended)
    return {
        "delay_before_seconds": spread(before),
        "delay_meanwhile_seconds": spread(meanwhile),
        "ratio_of_medians": round(statistics.median(meanwhile) / statistics.median(before), 2),
    }


def lateness(run: Run, without: str, begin: float, end: float) -> list[float]:
    lines = (json.loads(line) for line in run.log.path.read_text().splitlines())
    return [
        x["seconds"] for x in lines
        if x["what"] == "late" and x["shard"] != without and begin <= x["at"] < end
    ]  # fmt: skip


def ratios(name: str, samples: list[float]) -> dict[str, Any]:
    return {
        f"{name}_per_lease": spread([sample / LEASE_SECONDS for sample in samples]),
        "lease_seconds": LEASE_SECONDS,
        "samples": len(samples),
    }


def spread(samples: list[float]) -> dict[str, float]:
    ordered = sorted(samples)
    return {
        "p50": round(statistics.median(ordered), 3),
        "p99": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 3),
        "max": round(ordered[-1], 3),
    }


@contextmanager
def server_stage(table: str, shards: int) -> Iterator[Stage]:
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:

        def server_of(name: str) -> Any:
            return stack.enter_context(getattr(servers, name)())

        place = stack.enter_context(lease_place(table, Path(folder), server_of))
        yield stack.enter_context(stage_on(Path(folder), place, shards=shards))


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.worker_faults", description=__doc__)
    parser.add_argument("what", choices=["kills", "deploy", "hang"])
    parser.add_argument("--table", choices=TABLES, default="sqlite")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--deploys", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=15.0)
    asked = parser.parse_args()
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # workers import `Timed`
    with server_stage(asked.table, 6 if asked.what == "kills" else 8) as stage:
        match asked.what:
            case "kills":
                found = kills(stage, asked.kills)
            case "deploy":
                found = deploy(stage, asked.deploys)
            case _:
                found = hang(stage, asked.seconds)
        stage.end_traffic()
        wait_until(stage.caught_up, "everything was delivered")
        verdict = stage.verdict().require()
    judged = {"written": verdict.written, "lost": verdict.lost, "repeated": verdict.repeated}
    print(json.dumps({"what": asked.what, "table": asked.table, **found, **judged}))


if __name__ == "__main__":
    main()
