"""The shapes of the requests are those of AWS's public model, as the SDK has it."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from shardline.local.kinesis import requests
from shardline.local.kinesis.operations import Kinesis
from shardline.local.refusals import Refusal
from shardline.local.validation import Blob, Integer, ListOf, MapOf, Shape, Structure, Text

MODEL = botocore.session.get_session().get_service_model("kinesis")
OTHERWISE = {
    # AWS refuses more than these, though its model does not say so.
    ("CreateStream", "ShardCount"),
    ("DecreaseStreamRetentionPeriod", "RetentionPeriodHours"),
    ("IncreaseStreamRetentionPeriod", "RetentionPeriodHours"),
    ("AddTagsToStream", "Tags"),
    # Channels are not supported.
    ("ListTagsForResource", "ResourceARN"),
    ("TagResource", "ResourceARN"),
    ("UntagResource", "ResourceARN"),
}
UNUSED = {
    "StreamId",
    "WarmThroughputMiBps",
    "RecordDistributionStrategy",
    "DryRun",
}


def bounds(shape: Shape) -> dict[str, Any]:
    match shape:
        case Text(shortest, longest, _, choices):
            return {"min": shortest or None, "max": longest, "enum": sorted(choices)}
        case Integer(lowest, highest):
            return {"min": lowest, "max": highest, "enum": []}
        case Blob(longest):
            return {"min": None, "max": longest, "enum": []}
        case ListOf(_, shortest, longest) | MapOf(_, _, shortest, longest):
            return {"min": shortest or None, "max": longest, "enum": []}
    return {"min": None, "max": None, "enum": []}


def model_bounds(shape: Any) -> dict[str, Any]:
    found = shape.metadata
    return {
        "min": found.get("min") or None,
        "max": found.get("max"),
        "enum": sorted(found.get("enum", [])),
    }


def differences(operation: str, shape: Structure, model: Any) -> list[str]:
    found = []
    missing = set(model.members) - set(shape.members) - UNUSED
    if missing:
        found.append(f"{operation} lacks {missing}")
    for name, member in shape.members.items():
        if name not in model.members:
            found.append(f"{operation}.{name} is not in the model")
        elif (operation, name) not in OTHERWISE:
            if bounds(member) != model_bounds(model.members[name]):
                found.append(f"{operation}.{name}: {bounds(member)}")
            if isinstance(member, Structure):
                found += differences(f"{operation}.{name}", member, model.members[name])
    return found


@pytest.mark.parametrize("operation", sorted(requests._SHAPES))
def test_a_shape_has_the_members_and_bounds_of_the_model(operation: str) -> None:
    if operation not in MODEL.operation_names:
        pytest.skip(f"the installed botocore does not know {operation}")
    model = MODEL.operation_model(operation).input_shape
    if model is None:
        assert not requests._SHAPES[operation].members
        return
    assert differences(operation, requests._SHAPES[operation], model) == []


def test_every_operation_has_a_shape() -> None:
    kinesis = Kinesis()
    assert all(kinesis.knows(operation) for operation in requests._SHAPES)
    assert not kinesis.knows("StartStreamEncryption")


@pytest.mark.parametrize(
    "entry",
    [
        {"Data": "QR==", "PartitionKey": "k"},
        {"Data": "AAA", "PartitionKey": "k"},
        {"Data": "AAA A", "PartitionKey": "k"},
        {"Data": "AAAA-", "PartitionKey": "k"},
        {"Data": "=AAA", "PartitionKey": "k"},
        {"Data": "ÄAAA", "PartitionKey": "k"},
        {"Data": 1, "PartitionKey": "k"},
        {"Data": ["AAAA"], "PartitionKey": "k"},
        {"Data": "A" * 13_981_016, "PartitionKey": "k"},
        {"Data": bytes(10_485_761), "PartitionKey": "k"},
        {"Data": "AAAA", "PartitionKey": ""},
        {"Data": "AAAA"},
        {"Data": "AAAA", "PartitionKey": "k", "ExplicitHashKey": "x"},
        {"Data": "AAAA", "PartitionKey": 1},
        None,
    ],
)
def test_the_quick_check_accepts_no_more_than_the_full_one(entry: Any) -> None:
    good = {"Data": "AAAA", "PartitionKey": "k"}
    request = {"StreamName": "orders", "Records": [good, entry]}
    with pytest.raises(Refusal):
        requests.checked("PutRecords", request)
    assert requests.checked("PutRecords", {"StreamName": "orders", "Records": [good]})
