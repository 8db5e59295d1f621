"""`next(stream)`: all shards in one order, a token at every step."""

# mypy: ignore-errors

import time

from delivery_log import Arguments, DeliveryLog

import shardline

MOST_RECORDS = 1_000

arguments = Arguments()
log = DeliveryLog(arguments.folder)
with shardline.stream(
    f"kinesis://{arguments.stream}",
    "trim_horizon",
    region="us-east-1",
    endpoint_url=arguments.endpoint_url,
) as stream:
    data = []
    while True:
        record = next(stream)
        if record is not None:
            data.append(record.data)
        if data and (record is None or len(data) >= MOST_RECORDS):
            log.write(data)
            data = []
        if record is None:
            time.sleep(0.01)
