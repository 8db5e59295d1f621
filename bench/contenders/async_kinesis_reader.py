"""async-kinesis: its Consumer as its README shows it, a delivery for what lies in its queue."""

# mypy: ignore-errors

import asyncio

from delivery_log import ACCESS, Arguments, DeliveryLog
from kinesis import Consumer
from kinesis.processors import StringProcessor


class Raw(StringProcessor):
    """Hands on the bytes as they are."""

    def parse(self, data):
        yield data


arguments = Arguments()


async def main():
    """Read for ever."""
    log = DeliveryLog(arguments.folder)
    async with Consumer(
        stream_name=arguments.stream,
        endpoint_url=arguments.endpoint_url,
        region_name=ACCESS["region_name"],
        processor=Raw(),
        iterator_type="TRIM_HORIZON",
        record_limit=10_000,
        sleep_time_no_records=0.05,
        shard_fetch_rate=5,
        max_queue_size=100_000,
    ) as consumer:
        while True:
            data = []
            async for item in consumer:
                data.append(item)
                if len(data) >= 1_000:
                    log.write(data)
                    data = []
            log.write(data)


asyncio.run(main())
