"""The embedded service: Kinesis and DynamoDB Streams over HTTP on this machine."""

from __future__ import annotations

from shardline.errors import optional_import
from shardline.local.clock import Clock

with optional_import("the embedded service"):
    from shardline.local.service import Service

__all__ = ["Clock", "Service"]
