"""Arrow pages, shard by shard: what Spark's executors read. The last argument is the wire."""

# mypy: ignore-errors

import sys

from report import Report

from shardline.core.positions import TRIM_HORIZON
from shardline.services.access import Access
from shardline.services.connection import connect
from shardline.services.cursor import ShardCursor

report = Report()
service = connect(
    f"kinesis://{report.stream}", Access(endpoint_url=report.endpoint_url), wire=sys.argv[5]
)
report.begin()
for shard in service.list_shards():
    cursor, behind = ShardCursor(service, shard.id, TRIM_HORIZON), 1
    while behind:
        page = cursor.read(10_000)
        behind = page.behind_ms
        report.delivered.append(page.records)
report.finish(lambda pages: (data for page in pages for data in page.column("data").to_pylist()))
