"""A consumer that appends each typed change to a file: the test folds it into a copy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import shardline


class Thing(shardline.Model):
    """An item with two keys."""

    class Meta:
        table = os.environ.get("SNAPSHOT_TABLE", "things")
        stream = {"new", "old"}  # noqa: RUF012

    id: str = shardline.key()
    place: int = shardline.key(range=True)
    value: int


class Copier(shardline.ShardConsumer):
    """Writes what it is given, with the fence under which it was given."""

    model = Thing

    def __init__(self, file: str | None = None) -> None:
        self.file = Path(file or os.environ["SNAPSHOT_FILE"])

    def process(self, batch: shardline.ShardBatch) -> None:
        lines = [json.dumps(self._line(batch, change)) for change in batch.changes]
        with self.file.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")  # one write: appended as a whole

    @staticmethod
    def _line(batch: shardline.ShardBatch, change: Any) -> dict[str, Any]:
        new = change["new"]
        return {
            "worker": os.getpid(),
            "shard": batch.shard_id,
            "type": change["meta"]["event"]["type"],
            "key": [change["key"]["id"], change["key"]["place"]],
            "value": None if new is None else new.value,
        }
