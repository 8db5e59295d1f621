"""What was written, delivered and done in a soak, as its files have it, and the verdict on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from shardline.cli.demo.workers import Log, report_deliveries
from shardline.core.promise import PromiseChecker, RecordRef, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WRITTEN: Final = "written.jsonl"
SHARDS: Final = "shards.jsonl"
EVENTS: Final = "events.jsonl"


def judge(folder: Path, workers: Sequence[str]) -> Verdict:
    """Return the checker's verdict on all that was written and delivered."""
    checker = PromiseChecker()
    for line in lines_of(folder / SHARDS):
        shard = json.loads(line)
        checker.shard(shard["id"], shard["parents"])
    for line in lines_of(folder / WRITTEN):
        shard_id, key, sequence = json.loads(line)
        checker.wrote(shard_id, RecordRef(key, sequence))
    logs = [Log(folder / f"{name}.jsonl", name) for name in workers]
    for log in logs:
        log.read_on()
    report_deliveries(checker, logs)
    return checker.verdict()


def lines_of(file: Path) -> list[str]:
    """Return the whole lines of a file, which may still grow or be missing."""
    if not file.exists():
        return []
    return [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
