"""How a contender writes down what it delivered. Standard library only: it runs in any environment.

All contenders are started with ENDPOINT_URL STREAM FOLDER APP WORKER and "detail" or "-".
"""

# mypy: ignore-errors

import sys
import time
from pathlib import Path

STAMP_BYTES = 17
HEADER_BYTES = 36
ACCESS = {
    "region_name": "us-east-1",
    "aws_access_key_id": "local",
    "aws_secret_access_key": "local",
}


class Arguments:
    """What a contender is started with."""

    def __init__(self, arguments=None):
        arguments = sys.argv[1:] if arguments is None else arguments
        self.endpoint_url, self.stream, folder, self.app, self.worker, detail = arguments[:6]
        self.folder = Path(folder)
        self.detail = detail == "detail"


class DeliveryLog:
    """A file of deliveries: one for each shard, or one for all."""

    def __init__(self, folder, shard_id="all", *, detail=False):
        self._file = Path(folder, f"{shard_id}.deliveries").open("ab", buffering=0)  # noqa: SIM115
        self._detail = detail

    def write(self, data):
        """Write down one delivery: the data of its records in their order."""
        if not data:
            return
        first, last = (bytes(each[:STAMP_BYTES]).decode() for each in (data[0], data[-1]))
        line = f"{time.time():.6f} {len(data)} {first} {last}"
        if self._detail:
            headers = (bytes(each[:HEADER_BYTES]).decode().split() for each in data)
            line += "".join(f" {key}:{number}" for _, key, number in headers)
        self._file.write(f"{line}\n".encode())
