"""Bodies of PutRecords, and what an answer must have."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest

from shardline.core.writes.entries import make_entry
from shardline.core.writes.order import WriteOrder
from shardline.core.writes.shard_map import ShardMap
from shardline.services.put.body import decode_put, encode_put
from tests.unit.services.kpl import MAGIC


def test_a_body_has_each_record_as_the_service_wants_it() -> None:
    order = WriteOrder(ShardMap(), packed_bytes=1000)
    order.add(make_entry("ж", b"\x00\xff"))
    order.add(make_entry("b", b"1", "17"))
    order.add(make_entry("b", b"2", "17"))
    body = json.loads(encode_put({"StreamName": "orders"}, order.next_call(0.0)))
    first, second = body.pop("Records")
    assert body == {"StreamName": "orders"}
    assert first == {"PartitionKey": "ж", "Data": base64.b64encode(b"\x00\xff").decode()}
    assert (second["PartitionKey"], second["ExplicitHashKey"]) == ("b", "17")
    assert base64.b64decode(second["Data"]).startswith(MAGIC)


def test_an_answer_says_of_each_entry_whether_it_was_accepted() -> None:
    accepted, refused = decode_put(
        b'{"FailedRecordCount":1,"Records":[{"SequenceNumber":"1","ShardId":"s"},'
        b'{"ErrorCode":"InternalFailure","ErrorMessage":"?"}]}'
    )
    assert (accepted.sequence_number, accepted.shard_id, accepted.error_code) == ("1", "s", None)
    assert (refused.sequence_number, refused.error_code) == (None, "InternalFailure")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"Records":[{}]}', b'{"Records":[{"ShardId":"s"}]}']
)
def test_an_answer_that_leaves_an_entry_open_is_no_answer(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_put(body)
