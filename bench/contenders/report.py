"""How a contender tells what it did. It runs in the contender's environment: standard library only.

A contender is started with the endpoint, the stream, how many records there are, and a file. It
reads them all and tells how long that took; then, after the clock has stopped, it writes into the
file what it delivered in the order in which it did, so that the promise checker can judge.
"""

# mypy: ignore-errors

import json
import sys
import time
from pathlib import Path


class Report:
    """What a contender is told, and what it delivered. `begin` it when a client is there."""

    def __init__(self):
        self.endpoint_url, self.stream = sys.argv[1:3]
        self.count = int(sys.argv[3])
        self.delivered = []
        """The data of the records, or whatever `finish` is told to unpack into that."""
        self._wall = self._cpu = 0.0

    def begin(self):
        """Start the clock: what was imported and set up until now costs nothing."""
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def finish(self, unpack=None):
        """Stop the clock, then write down what was delivered."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        # Not getrusage: what the process that started us had used would count as ours.
        peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
        data = self.delivered if unpack is None else unpack(self.delivered)
        numbers = (bytes(each).split(b" ", 1)[0].decode() for each in data)
        Path(sys.argv[4]).write_text("".join(f"{number}\n" for number in numbers))
        told = {"wall_seconds": wall, "cpu_seconds": cpu, "peak_rss_kib": int(peak)}
        print(json.dumps(told), flush=True)


ACCESS = {
    "region_name": "us-east-1",
    "aws_access_key_id": "local",
    "aws_secret_access_key": "local",
}
