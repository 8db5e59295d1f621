"""The names of the options: ours, those of other sources, and those that are refused."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

from shardline.errors import ConfigurationError

KINESIS: Final = "kinesis"
DYNAMODB_STREAMS: Final = "dynamodb-streams"

KINESIS_SINK: Final = "kinesis (to write)"

_ACCESS: Final = ("region", "endpointUrl", "roleArn", "externalId", "profile")
_SHARED: Final = (
    *_ACCESS,
    "startingPosition", "endingPosition", "shardId", "failOnDataLoss",
    "maxRecordsPerBatch", "maxBytesPerBatch", "maxRecordsPerShard",
    "minRecordsPerBatch", "maxTriggerDelay", "shardsPerTask", "order",
)  # fmt: skip
NAMES: Final = {
    KINESIS: (
        "streamName",
        "streamARN",
        "wire",
        "deaggregate",
        "verifyChecksums",
        "strayRecords",
        *_SHARED,
    ),
    DYNAMODB_STREAMS: (
        "tableName",
        "streamARN",
        "itemSchema",
        "model",
        "snapshotSegments",
        "snapshotUnitsPerSecond",
        *_SHARED,
    ),
    KINESIS_SINK: (
        "streamName",
        "streamARN",
        "aggregation",
        "dedupeColumns",
        "giveUpAfter",
        *_ACCESS,
    ),
}

ALIASES: Final = {
    "initialposition": "startingPosition",
    "startingtimestamp": "startingPosition",
    "endingtimestamp": "endingPosition",
    "endpoint": "endpointUrl",
    "stsrolearn": "roleArn",
    "awsstsrolearn": "roleArn",
    "roleexternalid": "externalId",
    "stsexternalid": "externalId",
    "maxfetchrecordspershard": "maxRecordsPerShard",
    "maxoffsetspertrigger": "maxRecordsPerBatch",
    "maxbytespertrigger": "maxBytesPerBatch",
    "minoffsetspertrigger": "minRecordsPerBatch",
}
"""What Databricks, awslabs and Glue call an option that means the same here, in small letters."""

NEEDLESS: Final = frozenset(
    {
        "addidletimebetweenreads", "avoidemptybatches", "coalescethresholdblocksize",
        "describeshardinterval", "idletimebetweenreadsinms", "maxfetchduration", "maxfetchrate",
        "maxfetchtimeinms", "maxfetchtimepershardsec", "maxrecordperread", "maxrecordsperfetch",
        "maxretryintervalms", "minbatchestoretain", "minfetchperiod", "numretries",
        "retryintervalms", "rolesessionname", "shardfetchinterval", "stssessionname",
    }
)  # fmt: skip
"""How other sources are told to read. Here the service's quotas say: accepted, without effect."""

_POLLING: Final = {"consumertype": "getrecords", "consumermode": "polling"}
_FAN_OUT: Final = ("consumertype", "consumermode", "consumername", "consumerarn")
_LEASED: Final = (
    "appname", "leasetable", "leaseendpointurl", "workername", "leaseseconds", "withfence",
    "stopfile",
)  # fmt: skip
_SECRETS: Final = (
    "awsaccesskeyid", "awsaccesskey", "awssecretkey", "awssecretaccesskey", "awssessiontoken",
)  # fmt: skip


def by_our_names(format_name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return options by our names, whatever their case, prefix and origin.

    An unknown one is refused, with the nearest known name.
    """
    known = {name.lower(): name for name in NAMES[format_name]}
    values: dict[str, str] = {}
    for key, value in given.items():
        bare = re.sub(r"^(kinesis|dynamodb|dynamodb-streams)\.", "", key.lower())
        if bare in NEEDLESS or _POLLING.get(bare) == value.strip().lower():
            continue
        name = known.get(bare) or ALIASES.get(bare, "")
        if name not in known.values():
            raise ConfigurationError(_unknown(format_name, key, bare, known))
        if values.get(name, value) != value:
            raise ConfigurationError(f"option {name} is given twice, with different values")
        values[name] = value
    return values


def _unknown(format_name: str, key: str, bare: str, known: Mapping[str, str]) -> str:
    if bare in _SECRETS:
        return (
            f"option {key} is refused, because options end up in plans and logs: credentials come "
            "from the usual AWS places (environment, profile, instance role) or by roleArn"
        )
    if bare in _FAN_OUT:
        return f"option {key}: enhanced fan-out is not supported; leave it out to poll the shards"
    if bare in _LEASED:
        return (
            f"option {key}: a query keeps its place in its checkpoint, and shares no leases; to "
            "share a stream among applications, use `shardline run`"
        )
    near = difflib.get_close_matches(bare, known, n=1)
    hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(known.values())}"
    return f'format "{format_name}" has no option {key}: {hint}'
