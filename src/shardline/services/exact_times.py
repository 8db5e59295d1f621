"""Times in requests with their milliseconds.

botocore before 1.43.117 cuts the fraction of a second off every time that it sends as JSON, so that
a shard opened at a time gives records of up to a second before it.
"""

from __future__ import annotations

import json
from typing import Any, Final

_TIME: Final = "shardline_time"


def send_exact_times(client: Any) -> None:
    """Make a Kinesis client send the time of a position with its milliseconds."""

    def keep(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        place = params.get("StartingPosition", params)
        if "Timestamp" in place:
            context[_TIME] = place["Timestamp"].timestamp()

    def write(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        if _TIME in context:
            body = json.loads(params["body"])
            body.get("StartingPosition", body)["Timestamp"] = round(context[_TIME], 3)
            params["body"] = json.dumps(body).encode()

    events = client.meta.events
    for operation in ("GetShardIterator", "SubscribeToShard"):
        events.register(f"before-parameter-build.kinesis.{operation}", keep)
        events.register(f"before-call.kinesis.{operation}", write)
