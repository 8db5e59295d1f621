"""The embedded DynamoDB Streams."""
