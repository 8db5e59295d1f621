"""Binding a table that takes its time, or is on its way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from shardline.errors import ConfigurationError, ServiceError, StreamNotFound
from shardline.tables import tables
from shardline.tables.tables import ENABLING, MISSING, TableForm, bind_table

if TYPE_CHECKING:
    from shardline.services.calls import Calls

FORM = TableForm((("id", "S"),), "NEW_IMAGE")


class SlowTable:
    """A service whose table goes through the given statuses, one a call; None is not there."""

    def __init__(self, *statuses: str | None) -> None:
        self.statuses = list(statuses)
        self.created: list[dict[str, Any]] = []

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        if operation == "create_table":
            self.created.append(request)
            return {}
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status is None:
            raise StreamNotFound("not found")
        return {
            "Table": {
                "TableStatus": status,
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
            }
        }


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_POLL_SECONDS", 0)


def bind(table: SlowTable, *stream: str, wait_seconds: float = 60) -> list[str]:
    left = list(stream or ["ACTIVE"])
    bind_table(
        cast("Calls", table),
        "users",
        FORM,
        lambda: left.pop(0) if len(left) > 1 else left[0],
        wait_seconds,
    )
    return left


def test_a_missing_table_is_made_and_waited_for_and_then_its_stream() -> None:
    table = SlowTable(None, None, "CREATING", "CREATING", "ACTIVE")
    assert bind(table, MISSING, ENABLING, "ACTIVE") == ["ACTIVE"]
    assert table.created == [
        {
            "TableName": "users",
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
            "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        }
    ]


def test_a_table_that_is_being_updated_is_waited_for_and_not_made() -> None:
    table = SlowTable("UPDATING", "UPDATING", "ACTIVE")
    bind(table)
    assert table.created == []


@pytest.mark.parametrize("status", ["DELETING", "ARCHIVED"])
def test_a_table_on_its_way_out_is_an_error_at_once(status: str) -> None:
    with pytest.raises(ConfigurationError, match=f"dynamodb://users is {status}: bind again when"):
        bind(SlowTable(status))


def test_waiting_has_an_end() -> None:
    with pytest.raises(ServiceError, match="dynamodb://users is still CREATING: bind again with"):
        bind(SlowTable("CREATING"), wait_seconds=0)
    with pytest.raises(ServiceError, match="the stream of dynamodb://users is still ENABLING"):
        bind(SlowTable("ACTIVE"), ENABLING, wait_seconds=0)
