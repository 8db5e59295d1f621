from __future__ import annotations

from typing import Any

import pytest

from shardline.local.refusals import Refusal
from shardline.local.validation import (
    Blob,
    Boolean,
    Integer,
    ListOf,
    MapOf,
    Structure,
    Text,
    Timestamp,
    validate,
)

SHAPE = Structure(
    {
        "Limit": Integer(1, 10),
        "Name": Text(1, 4, "[a-z]+"),
        "Kind": Text(choices=("A", "B")),
        "Data": Blob(3),
        "Flag": Boolean(),
        "At": Timestamp(),
        "Tags": MapOf(Text(1, 2), Text(0, 2), 1, 2),
        "Keys": ListOf(Text(1, 2), 1, 2),
        "Inner": Structure({"Text": Text(1)}, ("Text",)),
        "Rows": ListOf(Structure({"Text": Text(1)}, ("Text",))),
    }
)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"Limit": "1"}, "class java.lang.String can not be converted to an Integer"),
        ({"Limit": True}, "class java.lang.Boolean can not be converted to an Integer"),
        ({"Limit": float("nan")}, "can not be converted to an Integer"),
        ({"Limit": []}, "Start of list found where not expected"),
        ({"Name": 1}, "TruncatingBigNumber can not be converted to an String"),
        ({"Name": {}}, "Start of structure or map found where not expected."),
        ({"Name": b"x"}, "can not be converted to an String"),
        ({"Data": 1}, "can not be converted to a Blob"),
        ({"Data": "AAA"}, "expected a multiple of 4 bytes but found: 3"),
        ({"Data": "AA=A"}, "Invalid Base64 character: '='"),
        ({"Data": "QR=="}, "Invalid last non-pad Base64 character dectected"),
        ({"Flag": "yes"}, "'YES' can not be converted to an Boolean"),
        ({"At": "now"}, "can not be converted to milliseconds since epoch"),
        ({"At": float("inf")}, "can not be converted to milliseconds since epoch"),
        ({"Tags": "a"}, "Expected map or null"),
        ({"Tags": {"a": 1}}, "can not be converted to an String"),
        ({"Tags": {1: "a"}}, "can not be converted to an String"),
        ({"Keys": "a"}, "Expected list or null"),
        ({"Keys": {}}, "Start of structure or map found where not expected."),
        ({"Inner": 1}, "Expected null"),
        ({"Inner": []}, "Start of list found where not expected"),
        ({"Rows": [1]}, "Expected null"),
    ],
)
def test_a_wrong_type_is_a_serialization_exception(request_: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal) as refused:
        validate(request_, SHAPE)
    assert refused.value.name == "SerializationException"
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"Limit": 0},
         "Value '0' at 'limit' failed to satisfy constraint: "
         "Member must have value greater than or equal to 1"),
        ({"Limit": 11}, "Member must have value less than or equal to 10"),
        ({"Limit": 10**30}, "Value '2147483647' at 'limit'"),
        ({"Name": "1"}, "Value '1' at 'name'"),
        ({"Name": "ABC"}, "Member must satisfy regular expression pattern: [a-z]+"),
        ({"Name": "abc\n"}, "Member must satisfy regular expression pattern: [a-z]+"),
        ({"Name": "abcde"}, "Member must have length less than or equal to 4"),
        ({"Kind": "C"}, "Member must satisfy enum value set: [A, B]"),
        ({"Data": "AAAAAA=="},
         "Value 'java.nio.HeapByteBuffer[pos=0 lim=4 cap=4]' at 'data' failed to satisfy "
         "constraint: Member must have length less than or equal to 3"),
        ({"Data": b"1234"}, "lim=4 cap=4"),
        ({"Tags": {}}, "Value '{}' at 'tags'"),
        ({"Tags": {"abc": ""}},
         "Map keys must satisfy constraint: [Member must have length less than or equal to 2, "
         "Member must have length greater than or equal to 1]"),
        ({"Tags": {"a": "abc"}}, "Map value must satisfy constraint: "),
        ({"Keys": ["abc"]}, "Value '[abc]' at 'keys' failed to satisfy constraint: Member must"),
        ({"Keys": [None]}, "at 'keys'"),
        ({"Inner": {}}, "Value null at 'inner.text' failed to satisfy constraint: Member must not"),
        ({"Rows": [{"Text": "a"}, {}]}, "Value null at 'rows.2.member.text'"),
        ({"Rows": [None]}, "Value null at 'rows.1.member'"),
    ],
)  # fmt: skip
def test_a_violated_constraint_is_a_validation_exception(
    request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refusal) as refused:
        validate(request_, SHAPE)
    assert refused.value.name == "ValidationException"
    assert refused.value.message.startswith("1 validation error detected: ")
    assert message in refused.value.message


def test_all_violations_are_one_error_and_ten_at_most() -> None:
    with pytest.raises(Refusal, match=r"2 validation errors detected: .*limit.*; .*name"):
        validate({"Limit": 0, "Name": ""} | {"Name": "abcde"}, SHAPE)
    with pytest.raises(Refusal, match="10 validation errors detected"):
        validate({"Rows": [{}] * 20}, SHAPE)


def test_one_of_several_members_is_required() -> None:
    shape = Structure(
        {"StreamName": Text(), "StreamARN": Text()}, alternatives=("StreamName", "StreamARN")
    )
    with pytest.raises(Refusal, match="Value null at 'streamName'"):
        validate({}, shape)
    assert validate({"StreamARN": "a"}, shape) == {"StreamARN": "a"}


def test_only_known_members_are_returned_and_null_is_none_of_them() -> None:
    request: dict[str, Any] = {
        "Limit": 2.9,
        "Name": None,
        "Tags": {"a": None},
        "More": [1],
        "At": 1.5,
    }
    assert validate(request, SHAPE) == {"Limit": 2, "Tags": {"a": ""}, "At": 1.5}


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(Refusal) as refused:
        validate({"Name": "a" * 1_000_000}, SHAPE)
    assert len(refused.value.message) < 10_000
