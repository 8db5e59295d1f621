"""The options of both formats, checked at load() so that a mistake is one line, not a stack."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from shardline.core.planning.limits import Settings
from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime, Position
from shardline.errors import ConfigurationError, InvalidPosition
from shardline.services.access import Access
from shardline.services.cbor_client import WIRES
from shardline.spark.driver.tokens import offset_of_token
from shardline.spark.option_names import DYNAMODB_STREAMS, by_our_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardline.core.offsets import Offset

_TRUTH: Final = {"true": True, "false": False}
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DEFAULT_RECORDS_PER_BATCH: Final = 1_000_000
_LATEST: Final[Position] = LATEST
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a stream is, and as whom to read it."""

    address: str
    access: Access = field(default_factory=Access)
    wire: str = "json"


@dataclass(frozen=True, slots=True)
class Options:
    """What a query asked for. It travels to the executors, so it never holds a secret."""

    format: str
    connection: Connection
    start: Position
    resume: Offset | None
    """Where a token stands, if that is the start."""
    end: Position | None
    """None: not given, so a bounded read ends at the present and a query goes on."""
    fail_on_data_loss: bool
    max_records_per_batch: int
    max_bytes_per_batch: int | None
    max_records_per_shard: int | None
    min_records_per_batch: int
    max_trigger_delay_seconds: float
    shards_per_task: int | None
    """None: it follows from the number of shards and cores."""
    deaggregate: bool
    verify_checksums: bool
    drops_strays: bool
    """Leave out aggregated records that were written into the wrong shard."""
    item_schema: str | None

    def settings(self, *, finds_times: bool) -> Settings:
        """Return what a planner needs to know of them."""
        return Settings(
            finds_times=finds_times,
            fail_on_data_loss=self.fail_on_data_loss,
            max_bytes=self.max_bytes_per_batch,
            max_records_per_shard=self.max_records_per_shard,
            min_records=self.min_records_per_batch,
            max_delay_seconds=self.max_trigger_delay_seconds,
        )


def read_options(format_name: str, given: Mapping[str, str]) -> Options:
    """Read the options of a format, or raise a `ConfigurationError` of one line."""
    values = OptionValues(by_our_names(format_name, given))
    start = (values.get("startingPosition") or "").strip()
    token = start.startswith("{") and "at_timestamp" not in start.lower()
    return Options(
        format=format_name,
        connection=Connection(
            read_address(format_name, values),
            read_access(values),
            wire=values.get_as("wire", _wire, "json"),
        ),
        start=_LATEST if token else values.get_as("startingPosition", read_position, _LATEST),
        resume=values.get_as("startingPosition", _resume, None) if token else None,
        end=values.get_as("endingPosition", read_position, None),
        fail_on_data_loss=values.get_as("failOnDataLoss", _truth, True),
        max_records_per_batch=values.get_as(
            "maxRecordsPerBatch", _positive, _DEFAULT_RECORDS_PER_BATCH
        ),
        max_bytes_per_batch=values.get_as("maxBytesPerBatch", _size, None),
        max_records_per_shard=values.get_as("maxRecordsPerShard", _positive, None),
        min_records_per_batch=values.get_as("minRecordsPerBatch", _positive, 0),
        max_trigger_delay_seconds=values.get_as("maxTriggerDelay", read_duration, 60.0),
        shards_per_task=values.get_as("shardsPerTask", _positive, None),
        deaggregate=values.get_as("deaggregate", _truth, True),
        verify_checksums=values.get_as("verifyChecksums", _truth, True),
        drops_strays=values.get_as("strayRecords", _drops, False),
        item_schema=values.get("itemSchema"),
    )


def read_position(text: str) -> Position:
    """Read a position as a user writes it: either end in any case, or a time with its zone."""
    text = text.strip()
    match text.lower():
        case "trim_horizon" | "earliest":
            return TRIM_HORIZON
        case "latest":
            return LATEST
    text = _timestamp_in(text)
    try:
        return AtTime(datetime.fromisoformat(text))
    except InvalidPosition:
        raise ConfigurationError(f"{text!r} has no time zone: write it as {text}Z") from None
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is no position: write trim_horizon, latest, or a time such as "
            "2026-11-15T12:00:00Z, or a token of shardline.stream"
        ) from None


def _timestamp_in(text: str) -> str:
    """Return the time in `AT_TIMESTAMP 2026-…` and in `{"at_timestamp": "2026-…"}`."""
    if text.startswith("{"):
        try:
            body = {key.lower(): value for key, value in json.loads(text).items()}
        except ValueError:
            return text
        return str(body.get("at_timestamp", text)).strip()
    return re.sub(r"(?i)^at_timestamp\s+", "", text)


class OptionValues:
    """Options by their one name, as texts."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, name: str) -> str | None:
        """Return the text of an option; None if it is missing or empty."""
        return self._values.get(name) or None

    def get_as(self, name: str, read: Callable[[str], T], default: T) -> T:
        """Return the value of an option. Raises `ConfigurationError` that names it."""
        text = self._values.get(name)
        if text is None:
            return default
        try:
            return read(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"option {name}: {error}") from None


def read_access(values: OptionValues) -> Access:
    """Return how to reach the service."""
    return Access(
        region=values.get("region"),
        endpoint_url=values.get("endpointUrl"),
        profile=values.get("profile"),
        role_arn=values.get("roleArn"),
        external_id=values.get("externalId"),
    )


def read_address(format_name: str, values: OptionValues, verb: str = "read") -> str:
    """Return the address of the stream that the options name."""
    scheme, noun = ("kinesis", "streamName")
    if format_name == DYNAMODB_STREAMS:
        scheme, noun = ("dynamodb", "tableName")
    name, arn = values.get(noun), values.get("streamARN")
    if name and arn:
        raise ConfigurationError(f"give {noun} or streamARN, not both")
    if not name and not arn:
        raise ConfigurationError(
            f"say {'what' if verb == 'read' else 'where'} to {verb}: "
            f'.option("{noun}", …) or .option("streamARN", …)'
        )
    text = name or arn or ""
    if "," in text:
        raise ConfigurationError(
            f"{noun if name else 'streamARN'} names several streams: one query {verb}s one "
            f"stream; {'load each and union them' if verb == 'read' else 'write to each'}"
        )
    return f"{scheme}://{text}"


def _resume(token: str) -> Offset | None:
    try:
        return offset_of_token(token)
    except InvalidPosition as error:
        raise ConfigurationError(str(error)) from None


def _truth(text: str) -> bool:
    try:
        return _TRUTH[text.strip().lower()]
    except KeyError:
        raise ConfigurationError(f"{text!r} is neither true nor false") from None


def _drops(text: str) -> bool:
    if text.strip().lower() not in ("deliver", "drop"):
        raise ConfigurationError(f"{text!r} is neither deliver nor drop")
    return text.strip().lower() == "drop"


def _wire(text: str) -> str:
    if text.strip().lower() not in WIRES:
        raise ConfigurationError(f"{text!r} is neither {' nor '.join(WIRES)}")
    return text.strip().lower()


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigurationError(f"{text!r} is not a whole number above 0")
    return int(text)


def _size(text: str) -> int:
    """Read a number of bytes, as Spark writes them: 64m, 1g, 500000."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmg]?)b?\s*", text.lower())
    if match is None or int(match[1]) < 1:
        raise ConfigurationError(f"{text!r} is no size: write bytes, or 64m, or 1g")
    return int(match[1]) << 10 * " kmg".index(match[2] or " ")


def read_duration(text: str) -> float:
    """Read a time span, as Spark writes them: 500ms, 30s, 15m."""
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|m|min|h)\s*", text.lower())
    if match is None:
        raise ConfigurationError(f"{text!r} is no time span: write 500ms, 30s or 15m")
    return int(match[1]) * _UNITS[match[2]]
