"""Enhanced fan-out of Kinesis: the service pushes a shard's records, for one consumer alone."""
