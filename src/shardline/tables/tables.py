"""Creates a model's table and stream, waits for them, and compares existing ones with the model."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shardline.errors import ConfigurationError, InvalidPosition, ServiceError, StreamNotFound
from shardline.tables.models import ViewType, key_names_of, table_meta_of
from shardline.tables.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.calls import Calls
    from shardline.tables.models import Model

logger = logging.getLogger(__name__)

MISSING: Final = "not there yet"
ENABLING: Final = "ENABLING"
_PASSING: Final = (MISSING, ENABLING, "CREATING", "UPDATING")
_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class TableForm:
    """What must match between table and model: the keys with their types, and the stream's view."""

    keys: tuple[tuple[str, str], ...]
    """Name and kind (S, N or B) of the hash key, then of the range key if there is one."""
    view_type: ViewType | None


def form_of(model: type[Model]) -> TableForm:
    """Return the form of the table that a model declares."""
    meta = table_meta_of(model)
    shape = Shape(model, meta.table)
    keys = [(shape.attribute_of(name), shape.key_kind(name)) for name in key_names_of(model)]
    return TableForm(tuple(keys), meta.view_type)


def bind_table(
    calls: Calls,
    table: str,
    wanted: TableForm,
    stream_status: Callable[[], str],
    wait_seconds: float,
) -> None:
    """Create the table if it is missing, wait until table and stream are active, and compare."""
    deadline = time.monotonic() + wait_seconds
    if _describe(calls, table) is None:
        _create(calls, table, wanted)
    _wait_until(lambda: _status_of(calls, table), "ACTIVE", f"dynamodb://{table}", deadline)
    differences = differences_between(_form_in(_describe(calls, table) or {}), wanted)
    if differences:
        raise ConfigurationError(
            f"dynamodb://{table} does not fit the model: {'; '.join(differences)}: "
            "change the model or the table, or name another one in Meta.table"
        )
    if wanted.view_type is not None:
        _wait_until(stream_status, "ACTIVE", f"the stream of dynamodb://{table}", deadline)


def _wait_until(status_of: Callable[[], str], wanted: str, subject: str, deadline: float) -> None:
    while (status := status_of()) != wanted:
        if status not in _PASSING:
            raise ConfigurationError(f"{subject} is {status}: bind again when that has passed")
        if time.monotonic() > deadline:
            raise ServiceError(f"{subject} is still {status}: bind again with more wait_seconds")
        logger.info("%s is %s: waiting until it is %s", subject, status, wanted)
        time.sleep(_POLL_SECONDS)


def _status_of(calls: Calls, table: str) -> str:
    found = _describe(calls, table)
    return MISSING if found is None else str(found["TableStatus"])


def differences_between(found: TableForm, wanted: TableForm) -> list[str]:
    """Describe each difference between a table and its model. An extra stream is allowed."""
    differences = []
    for place, noun in enumerate(("hash key", "range key")):
        there, asked = (_key_at(form, place) for form in (found, wanted))
        if there != asked:
            differences.append(f"its {noun} is {there}, the model has {asked}")
    if wanted.view_type is not None and wanted.view_type != found.view_type:
        stream = found.view_type or "off"
        differences.append(f"its stream is {stream}, the model wants {wanted.view_type}")
    return differences


def _key_at(form: TableForm, place: int) -> str:
    return "{} ({})".format(*form.keys[place]) if place < len(form.keys) else "none"


def _describe(calls: Calls, table: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = calls.call("describe_table", TableName=table)["Table"]
    except StreamNotFound:
        return None
    except InvalidPosition as error:  # a name that no table can have
        raise ConfigurationError(str(error)) from error
    return found


def _create(calls: Calls, table: str, wanted: TableForm) -> None:
    request: dict[str, Any] = {
        "TableName": table,
        "KeySchema": [
            {"AttributeName": name, "KeyType": key_kind}
            for (name, _), key_kind in zip(wanted.keys, ("HASH", "RANGE"), strict=False)
        ],
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind} for name, kind in wanted.keys
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }
    if wanted.view_type is not None:
        request["StreamSpecification"] = {
            "StreamEnabled": True,
            "StreamViewType": wanted.view_type,
        }
    try:
        calls.call("create_table", **request)
        logger.info("dynamodb://%s was created", table)
    except ServiceError:
        # Another process created it, or the reply to our own first attempt was lost.
        if _describe(calls, table) is None:
            raise


def _form_in(described: dict[str, Any]) -> TableForm:
    kinds = {
        each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]
    }
    # The hash key comes first in a key schema.
    names = [each["AttributeName"] for each in described["KeySchema"]]
    stream = described.get("StreamSpecification", {})
    return TableForm(
        tuple((name, kinds[name]) for name in names),
        stream.get("StreamViewType") if stream.get("StreamEnabled") else None,
    )
