"""async-kinesis: its Consumer as its README shows it, with no waiting between reads."""

# mypy: ignore-errors

import asyncio
import os

from report import ACCESS, Report

os.environ["AWS_ACCESS_KEY_ID"] = ACCESS["aws_access_key_id"]
os.environ["AWS_SECRET_ACCESS_KEY"] = ACCESS["aws_secret_access_key"]
os.environ["AWS_DEFAULT_REGION"] = ACCESS["region_name"]

from kinesis import Consumer
from kinesis.processors import StringProcessor


class Raw(StringProcessor):
    """Hands on the bytes as they are."""

    def parse(self, data):
        yield data


report = Report()


async def main():
    """Read everything."""
    async with Consumer(
        stream_name=report.stream,
        endpoint_url=report.endpoint_url,
        region_name=ACCESS["region_name"],
        processor=Raw(),
        iterator_type="TRIM_HORIZON",
        record_limit=10_000,
        sleep_time_no_records=0.01,
        shard_fetch_rate=1_000,
        max_queue_size=100_000,
    ) as consumer:
        report.begin()
        while len(report.delivered) < report.count:
            async for item in consumer:
                report.delivered.append(item)


asyncio.run(main())
report.finish()
