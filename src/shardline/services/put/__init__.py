"""Puts records into a Kinesis stream, each key in its order."""
