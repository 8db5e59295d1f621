"""The DataFrame sink: rows into a Kinesis stream."""
