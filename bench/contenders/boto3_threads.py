"""The loop that one writes by hand with boto3: a thread a shard, no leases, no order, no state."""

# mypy: ignore-errors

import threading
import time

import boto3
from delivery_log import ACCESS, Arguments, DeliveryLog

arguments = Arguments()


def follow(shard_id):
    client = boto3.client("kinesis", endpoint_url=arguments.endpoint_url, **ACCESS)
    log = DeliveryLog(arguments.folder, shard_id)
    iterator = client.get_shard_iterator(
        StreamName=arguments.stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    while iterator:
        try:
            page = client.get_records(ShardIterator=iterator, Limit=10_000)
        except client.exceptions.ProvisionedThroughputExceededException:
            time.sleep(0.2)
            continue
        iterator = page["NextShardIterator"]
        log.write([record["Data"] for record in page["Records"]])
        if not page["MillisBehindLatest"]:
            time.sleep(0.2)


client = boto3.client("kinesis", endpoint_url=arguments.endpoint_url, **ACCESS)
for shard in client.list_shards(StreamName=arguments.stream)["Shards"]:
    threading.Thread(target=follow, args=(shard["ShardId"],)).start()
