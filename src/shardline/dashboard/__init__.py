"""The dashboard: a live page of a stream."""
