"""The loop that one writes by hand with boto3: every shard in turn, no order between them."""

# mypy: ignore-errors

import boto3
from report import ACCESS, Report

report = Report()
client = boto3.client("kinesis", endpoint_url=report.endpoint_url, **ACCESS)
report.begin()
pages = []
for shard in client.list_shards(StreamName=report.stream)["Shards"]:
    iterator = client.get_shard_iterator(
        StreamName=report.stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    while True:
        page = client.get_records(ShardIterator=iterator, Limit=10_000)
        pages.append(page["Records"])
        iterator = page["NextShardIterator"]
        if not page["MillisBehindLatest"]:
            break
report.delivered = pages
report.finish(lambda pages: (record["Data"] for page in pages for record in page))
