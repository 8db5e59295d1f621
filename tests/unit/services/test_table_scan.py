"""The pages of a table: whole answers only, at a pace."""

from __future__ import annotations

from typing import Any

import pytest

from shardline.errors import Throttled
from shardline.services.table_scan import AnswerNotWhole, ScanPace, TableScan


class Answers:
    """Calls that give prepared answers, and note the requests."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers = list(answers)

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        if operation == "describe_table":
            return {
                "Table": {
                    "AttributeDefinitions": [
                        {"AttributeName": "r", "AttributeType": "N"},
                        {"AttributeName": "h", "AttributeType": "B"},
                    ],
                    "KeySchema": [{"AttributeName": "h"}, {"AttributeName": "r"}],
                    "ItemCount": 3,
                    "TableSizeBytes": 99,
                }
            }
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"ResponseMetadata": {"HTTPHeaders": {}}, **answer}


def scan_of(*answers: Any) -> tuple[TableScan, Answers]:
    calls: Any = Answers(*answers)
    return TableScan(calls, "users", 2), calls


ITEM = {"h": {"B": b"\x00\xff"}, "r": {"N": "7"}, "v": {"S": "x"}}
PAGE = {"Items": [ITEM], "ConsumedCapacity": {"CapacityUnits": 4.0}}


def test_a_key_is_texts_and_the_next_page_starts_after_it() -> None:
    rest = {"h": ITEM["h"], "r": ITEM["r"]}
    scan, calls = scan_of(PAGE | {"LastEvaluatedKey": rest}, PAGE)
    page = scan.page(1, None)
    assert (page.rest, page.keys, page.units) == (["AP8=", "7"], [rest], 4.0)
    assert scan.page(1, page.rest).rest is None
    assert calls.requests[1]["ExclusiveStartKey"] == rest
    assert calls.requests[1]["ConsistentRead"], "what was written before the pins must be there"
    assert (calls.requests[1]["Segment"], calls.requests[1]["TotalSegments"]) == (1, 2)
    assert scan.size() == (3, 99)


def test_an_answer_without_items_is_no_end_of_the_segment() -> None:
    scan, _ = scan_of({})
    with pytest.raises(AnswerNotWhole):
        scan.page(0, None)


def test_a_refused_page_and_one_that_is_not_whole_are_read_again_for_a_while() -> None:
    slept: list[float] = []
    scan, calls = scan_of(Throttled("slow down"), {}, PAGE)
    assert scan.patient_page(0, None, ScanPace(None), slept.append).items == [ITEM]
    assert len(calls.requests) == 3
    scan, calls = scan_of(*[Throttled("slow down")] * 1000)
    slept.clear()
    with pytest.raises(Throttled):
        scan.patient_page(0, None, ScanPace(None), slept.append)
    assert sum(slept) == pytest.approx(120)


def test_a_pace_waits_for_what_the_pages_took() -> None:
    now = 100.0
    pace = ScanPace(2.0, lambda: now)
    assert pace.wait_seconds() == 0
    pace.spent(4.0)
    assert pace.wait_seconds() == 2
    now += 1.5
    assert pace.wait_seconds() == 0.5
    now += 10
    assert pace.wait_seconds() == 0
