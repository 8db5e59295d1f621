"""A stream that is always the same, from `shardline local` in a process of its own.

`with canned([Stock("orders", shards=8, records=40_000, record_bytes=1_000)]) as server:` starts it
and fills it; what was written, shard by shard and key by key, is there for the promise checker.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef, Verdict
from shardline.local import Service

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PUT_RECORDS: Final = 500
KEYS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Stock:
    """What a stream holds."""

    name: str
    shards: int
    records: int
    record_bytes: int


@dataclass(frozen=True, slots=True)
class Server:
    """Where the streams are, and what was written to them."""

    endpoint_url: str
    folder: Path

    def judge(self, stream: str, deliveries: Path) -> Verdict:
        """Hold what a reader says it delivered, in its order, against what was written."""
        checker = PromiseChecker()
        written: list[tuple[str, RecordRef]] = []
        for line in (self.folder / stream).read_text().splitlines():
            shard_id, number, key = line.split(" ")
            written.append((shard_id, RecordRef(key, int(number))))
            checker.wrote(*written[-1])
        for line in deliveries.read_text().splitlines():
            shard_id, record = written[int(line)]
            checker.delivered(shard_id, Fence(), [record])
        return checker.verdict()


@contextmanager
def canned(stocks: Sequence[Stock]) -> Iterator[Server]:
    """Start a service with these streams, and stop it in the end."""
    with TemporaryDirectory() as folder:
        asked = json.dumps([asdict(stock) for stock in stocks])
        command = [sys.executable, "-m", "bench.canned", folder, asked]
        with (
            (Path(folder) / "complaints").open("w") as complaints,
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                endpoint_url = process.stdout.readline().strip()
                if not endpoint_url:
                    raise RuntimeError((Path(folder) / "complaints").read_text()[-500:])
                yield Server(endpoint_url, Path(folder))
            finally:
                process.stdin.close()


def main() -> None:
    """Be the service, until standard input ends."""
    folder, stocks = Path(sys.argv[1]), [Stock(**each) for each in json.loads(sys.argv[2])]
    with Service() as service:
        for stock in stocks:
            service.create_stream(stock.name, stock.shards)
            (folder / stock.name).write_text("\n".join(_fill(service, stock)))
        print(service.endpoint_url, flush=True)
        sys.stdin.read()


def _fill(service: Service, stock: Stock) -> Iterator[str]:
    draw = random.Random(stock.name)
    filling = draw.randbytes(stock.record_bytes)
    for first in range(0, stock.records, PUT_RECORDS):
        keys = [
            f"customer-{draw.randrange(KEYS)}"
            for _ in range(min(PUT_RECORDS, stock.records - first))
        ]
        # Every record begins with its number, so that a reader can say which ones it got.
        data = [
            (b"%d " % n + filling)[: stock.record_bytes] for n in range(first, first + len(keys))
        ]
        records = [
            {"PartitionKey": key, "Data": base64.b64encode(each).decode()}
            for key, each in zip(keys, data, strict=True)
        ]
        request = {"StreamName": stock.name, "Records": records}
        # Nobody else calls yet, so this may be done from here.
        answer = service.kinesis.call("PutRecords", request, service.clock.now_ms())
        for key, written in zip(keys, json.loads(answer)["Records"], strict=True):
            yield f"{written['ShardId']} {written['SequenceNumber']} {key}"


if __name__ == "__main__":
    main()
