"""A thread that writes numbered records at a modest rate, and a file of what was accepted."""

from __future__ import annotations

import json
import random
import threading
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Final

from bench.workload.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CALLS_PER_SECOND: Final = 2
_RETRY_SECONDS: Final = 0.5


class Writer:
    """Writes to one stream until it is stopped.

    A call has each key once, and refused records are written before the next call, so that the
    order of each key is known.
    """

    def __init__(self, endpoint_url: str, stream: str, per_second: int, file: Path) -> None:
        self._endpoint_url, self._stream, self._file = endpoint_url, stream, file
        self._per_call = max(1, per_second // CALLS_PER_SECOND)
        self._keys = [f"key-{n}" for n in range(4 * self._per_call)]
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self.written = self.refused = 0
        self._thread.start()

    def stop(self) -> None:
        """Stop after the call at hand. Raises the error that ended the writer early."""
        self._stopping.set()
        self._thread.join()
        self.require_alive()

    def require_alive(self) -> None:
        if self._failure is not None:
            raise RuntimeError(f"the writer failed: {self._failure}") from self._failure

    def _run(self) -> None:
        try:
            with self._file.open("w", buffering=1) as file:
                self._write(Connection(self._endpoint_url), file.write)
        except BaseException as failure:
            self._failure = failure

    def _write(self, connection: Connection, write: Callable[[str], object]) -> None:
        rng, due = random.Random(1), time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            due = max(due + 1 / CALLS_PER_SECOND, time.monotonic())
            left = rng.sample(self._keys, self._per_call)
            while left:
                left = self._put(connection, left, write)
                if left and self._stopping.wait(_RETRY_SECONDS):
                    return

    def _put(
        self, connection: Connection, keys: list[str], write: Callable[[str], object]
    ) -> list[str]:
        """Write one record of each key; return the keys that were refused."""
        data = b64encode(b"%020d %s" % (self.written, b"x" * 100)).decode()
        entries = [{"PartitionKey": key, "Data": data} for key in keys]
        body = json.dumps({"StreamName": self._stream, "Records": entries}).encode()
        answers = json.loads(connection.call("PutRecords", body)).get("Records")
        if answers is None:  # the whole call was refused
            return keys
        refused = []
        for key, answer in zip(keys, answers, strict=True):
            if "SequenceNumber" in answer:
                write(f'["{answer["ShardId"]}","{key}",{answer["SequenceNumber"]}]\n')
            else:
                refused.append(key)
        self.written += len(keys) - len(refused)
        self.refused += len(refused)
        return refused
