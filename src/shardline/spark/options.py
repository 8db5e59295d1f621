"""The options of both formats, checked at load() so that a mistake is one line, not a stack."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from shardline.core.offsets import Offset
from shardline.core.planning.limits import Settings
from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime, Position
from shardline.core.table_progress import TableProgress
from shardline.errors import ConfigurationError, InvalidPosition
from shardline.services.access import Access
from shardline.services.cbor_client import WIRES
from shardline.services.connection import connect
from shardline.services.snapshot_stream import SnapshotSettings
from shardline.spark.driver.tokens import offset_of_token
from shardline.spark.item_model import model_named
from shardline.spark.item_schema import item_schema
from shardline.spark.option_names import DYNAMODB_STREAMS, by_our_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardline.services.port import StreamService

SNAPSHOT: Final = "snapshot"
"""The start that means: the items of the table first, then every change since."""

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
    table: str | None = None
    """The table that the user named, where the address is that of one of its streams."""

    @property
    def name(self) -> str:
        """The stream or table as the user named it."""
        return self.table or self.address.partition("://")[2]

    def may_be_replaced(self, arn: str) -> bool:
        """Return true if a stream is one of the table, which may have others."""
        return self.address.startswith("dynamodb://") and f":table/{self.name}/stream/" in arn

    def to(self, arn: str | None) -> Connection:
        """Return the connection to one of the table's streams; for any other, to the same."""
        if arn is None or not self.may_be_replaced(arn):
            return self
        access = replace(self.access, region=None)  # that of the ARN
        return Connection(f"dynamodb://{arn}", access, self.wire, self.name)

    def connect(self) -> StreamService:
        """Return the stream; nothing is sent yet."""
        return connect(self.address, self.access, wire=self.wire)


@dataclass(frozen=True, slots=True)
class Options:
    """What a query asked for. It travels to the executors, so it never holds a secret."""

    format: str
    connections: tuple[Connection, ...]
    """One for each stream."""
    start: Position
    snapshot: bool
    """Read the tables first, and then their streams from where those were pinned."""
    snapshot_segments: int | None
    """None: it follows from the size of the table."""
    snapshot_units_per_second: float | None
    """The most read capacity units a second for a table; None for no limit."""
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
    total_order: bool
    """Merge all shards of a batch into one partition."""
    drops_strays: bool
    """Leave out aggregated records that were written into the wrong shard."""
    item_schema: str | None
    shards: frozenset[str] | None
    """The shards of a bounded read; None: all."""

    @property
    def first_offset(self) -> Offset:
        """The offset of a new query, in each of its streams."""
        table = TableProgress(segments=0) if self.snapshot else None
        return self.resume or Offset(self.start, table=table)

    def settings(self, *, finds_times: bool) -> Settings:
        """Return what the planner of one stream needs to know of them."""
        streams = len(self.connections)
        most_bytes = self.max_bytes_per_batch
        return Settings(
            finds_times=finds_times,
            fail_on_data_loss=self.fail_on_data_loss,
            max_bytes=None if most_bytes is None else max(1, most_bytes // streams),
            max_records_per_shard=self.max_records_per_shard,
            min_records=-(-self.min_records_per_batch // streams),
            max_delay_seconds=self.max_trigger_delay_seconds,
        )


def read_options(format_name: str, given: Mapping[str, str]) -> Options:
    """Read the options of a format, or raise a `ConfigurationError` of one line."""
    values = OptionValues(by_our_names(format_name, given))
    start = (values.get("startingPosition") or "").strip()
    token = start.startswith("{") and "at_timestamp" not in start.lower()
    snapshot = start.lower() == SNAPSHOT and format_name == DYNAMODB_STREAMS
    access, wire = read_access(values), values.get_as("wire", _choice(*WIRES), "json")
    addresses = read_addresses(format_name, values)
    if token and len(addresses) > 1:
        raise ConfigurationError("option startingPosition: a token is of one stream, name that one")
    options = Options(
        format=format_name,
        connections=tuple(Connection(address, access, wire) for address in addresses),
        start=_LATEST
        if token or snapshot
        else values.get_as("startingPosition", read_position, _LATEST),
        snapshot=snapshot,
        snapshot_segments=values.get_as("snapshotSegments", _segments, None),
        snapshot_units_per_second=values.get_as("snapshotUnitsPerSecond", _rate, None),
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
        total_order=values.get_as("order", _choice("shard", "total"), "shard") == "total",
        drops_strays=values.get_as("strayRecords", _choice("deliver", "drop"), "deliver") == "drop",
        item_schema=_item_schema(values),
        shards=values.get_as("shardId", _names, None),
    )
    if options.max_records_per_batch < len(addresses):
        raise ConfigurationError("option maxRecordsPerBatch: less than one record of each stream")
    return options


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
    """Return the address of the one stream that the options name."""
    addresses = read_addresses(format_name, values, verb)
    if len(addresses) > 1:
        raise ConfigurationError(f"the options name several streams: one query {verb}s one stream")
    return addresses[0]


def read_addresses(format_name: str, values: OptionValues, verb: str = "read") -> tuple[str, ...]:
    """Return the addresses of the streams that the options name."""
    scheme, noun = ("kinesis", "streamName")
    if format_name == DYNAMODB_STREAMS:
        scheme, noun = ("dynamodb", "tableName")
    name, arn = values.get(noun), values.get("streamARN")
    if not name and not arn and values.get("model"):
        name = values.get_as("model", _table_of, None)
    if name and arn:
        raise ConfigurationError(f"give {noun} or streamARN, not both")
    if not name and not arn:
        raise ConfigurationError(
            f"say {'what' if verb == 'read' else 'where'} to {verb}: "
            f'.option("{noun}", …) or .option("streamARN", …)'
        )
    names = [each.strip() for each in (name or arn or "").split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise ConfigurationError(
            f"option {noun if name else 'streamARN'}: write each stream once, as in a,b"
        )
    return tuple(f"{scheme}://{each}" for each in names)


def _item_schema(values: OptionValues) -> str | None:
    if values.get("model") and values.get("itemSchema"):
        raise ConfigurationError("give model or itemSchema, not both")
    written = values.get("itemSchema")
    return values.get_as("model", lambda path: item_schema(model_named(path)), written)


def _table_of(path: str) -> str | None:
    from shardline.tables.models import table_meta_of

    return table_meta_of(model_named(path)).table


def _names(text: str) -> frozenset[str] | None:
    names = frozenset(name.strip() for name in text.split(","))
    if "" in names:
        raise ConfigurationError(f"{text!r} names no shards: write one, or several as in a,b")
    return names


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


def _choice(*words: str) -> Callable[[str], str]:
    """Return what reads one of several words."""

    def read(text: str) -> str:
        if text.strip().lower() not in words:
            raise ConfigurationError(f"{text!r} is neither {' nor '.join(words)}")
        return text.strip().lower()

    return read


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigurationError(f"{text!r} is not a whole number above 0")
    return int(text)


def _segments(text: str) -> int | None:
    return SnapshotSettings(segments=_positive(text)).segments


def _rate(text: str) -> float | None:
    try:
        return SnapshotSettings(units_per_second=float(text)).units_per_second
    except ValueError:
        raise ConfigurationError(f"{text!r} is not a number") from None


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
