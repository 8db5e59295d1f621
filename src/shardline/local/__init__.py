"""The embedded service: Kinesis and DynamoDB Streams over HTTP on this machine."""

from __future__ import annotations

from shardline.local.clock import Clock
from shardline.local.service import Service

__all__ = ["Clock", "Service"]
