"""`next(stream)`: all shards in one order, a token at every step."""

# mypy: ignore-errors

from report import Report

import shardline

report = Report()
with shardline.stream(
    f"kinesis://{report.stream}", "trim_horizon", endpoint_url=report.endpoint_url
) as stream:
    report.begin()
    while len(report.delivered) < report.count:
        record = next(stream)
        if record is not None:
            report.delivered.append(record)
report.finish(lambda records: (record.data for record in records))
