"""Waiting until a stream of Kinesis can be used: its creation and its reshards take a while."""

from __future__ import annotations

from typing import Any, Final

_PAUSES: Final = {"Delay": 0.15, "MaxAttempts": 800}
"""boto3 waits 10 s where nothing is said. DescribeStream may be called 10 times a second."""


def wait_until_active(client: Any, name: str) -> None:
    """Wait until a stream is ACTIVE."""
    client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig=_PAUSES)
