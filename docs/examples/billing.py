r"""A consumer of ten lines, for two terminals:

shardline local --stream orders:2
shardline run billing:Billing --stream kinesis://orders --app billing \
    --endpoint-url http://127.0.0.1:4567
"""

import json

import shardline


class Billing(shardline.ShardConsumer):
    def process(self, batch: shardline.ShardBatch) -> None:
        for record in batch.records:
            order = json.loads(record.data)
            print(batch.shard_id, record.partition_key, order, flush=True)
