"""The embedded service: Kinesis and DynamoDB Streams over HTTP on this machine."""
