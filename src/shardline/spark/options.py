"""The options of both formats, checked at load() so that a mistake is one line, not a stack."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime, Position
from shardline.errors import ConfigurationError, InvalidPosition
from shardline.services.access import Access
from shardline.services.cbor_client import WIRES
from shardline.spark.driver.tokens import offset_of_token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardline.core.offsets import Offset

KINESIS: Final = "kinesis"
DYNAMODB_STREAMS: Final = "dynamodb-streams"

_SHARED: Final = (
    "region", "endpointUrl", "roleArn", "externalId", "profile",
    "startingPosition", "endingPosition",
    "failOnDataLoss", "maxRecordsPerBatch", "shardsPerTask",
    "appName", "leaseTable", "leaseEndpointUrl", "workerName", "leaseSeconds",
    "withFence", "stopFile",
)  # fmt: skip
_NAMES: Final = {
    KINESIS: ("streamName", "streamARN", "wire", "deaggregate", "verifyChecksums", *_SHARED),
    DYNAMODB_STREAMS: ("tableName", "streamARN", "itemSchema", *_SHARED),
}
_KNOWN_ELSEWHERE: Final = {
    "initialposition": "startingPosition",
    "endpoint": "endpointUrl",
    "stsrolearn": "roleArn",
    "maxfetchrecordspershard": "maxRecordsPerBatch",
    "maxrecordsperfetch": "maxRecordsPerBatch",
}
_SECRETS: Final = (
    "awsaccesskeyid",
    "awsaccesskey",
    "awssecretkey",
    "awssecretaccesskey",
    "awssessiontoken",
)
_FAN_OUT: Final = ("consumertype", "consumermode", "consumername", "consumerarn")
_TRUTH: Final = {"true": True, "false": False}
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
class LeaseOptions:
    """How applications share a stream."""

    app_name: str
    table: Connection
    worker_name: str | None
    lease_seconds: int


@dataclass(frozen=True, slots=True)
class Options:
    """What a query asked for. It travels to the executors, so it never holds a secret."""

    format: str
    connection: Connection
    start: Position
    resume: Offset | None
    """Where a token stands, if that is the start."""
    end: Position | None
    """None: not said, so a bounded read ends at the present and a query goes on."""
    fail_on_data_loss: bool
    max_records_per_batch: int
    shards_per_task: int
    deaggregate: bool
    verify_checksums: bool
    item_schema: str | None
    leases: LeaseOptions | None
    with_fence: bool
    """Add the columns that a consumer's sink needs: see `spark.executor.columns`."""
    stop_file: str | None
    """A file on the driver that asks to plan no more; it is removed when all is let go."""


def read_options(format_name: str, given: Mapping[str, str]) -> Options:
    """Read the options of a format, or raise a `ConfigurationError` of one line."""
    values = _Values(format_name, given)
    token = (values.get("startingPosition") or "").lstrip().startswith("{")
    return Options(
        format=format_name,
        connection=Connection(
            _address(values),
            _access(values, "endpointUrl"),
            wire=values.get_as("wire", _wire, "json"),
        ),
        start=_LATEST if token else values.get_as("startingPosition", read_position, _LATEST),
        resume=values.get_as("startingPosition", _resume, None) if token else None,
        end=values.get_as("endingPosition", read_position, None),
        fail_on_data_loss=values.get_as("failOnDataLoss", _truth, True),
        max_records_per_batch=values.get_as(
            "maxRecordsPerBatch", _positive, _DEFAULT_RECORDS_PER_BATCH
        ),
        shards_per_task=values.get_as("shardsPerTask", _positive, 1),
        deaggregate=values.get_as("deaggregate", _truth, True),
        verify_checksums=values.get_as("verifyChecksums", _truth, True),
        item_schema=values.get("itemSchema"),
        leases=_leases(values),
        with_fence=values.get_as("withFence", _truth, False),
        stop_file=values.get("stopFile"),
    )


def _leases(values: _Values) -> LeaseOptions | None:
    app_name, table = values.get("appName"), values.get("leaseTable")
    if (app_name is None) != (table is None):
        given, missing = ("appName", "leaseTable") if app_name else ("leaseTable", "appName")
        raise ConfigurationError(f"option {given} needs {missing}: together they share a stream")
    if app_name is None or table is None:
        return None
    if re.match(r"[^/]+://[^/@]*:[^/@]+@", table):
        raise ConfigurationError(
            "option leaseTable holds a password, and options end up in plans and logs: leave it "
            "out and set PGPASSWORD, or use a password file"
        )
    return LeaseOptions(
        app_name=app_name,
        table=Connection(table, _access(values, "leaseEndpointUrl")),
        worker_name=values.get("workerName"),
        lease_seconds=values.get_as("leaseSeconds", _positive, 10),
    )


def _access(values: _Values, endpoint_option: str) -> Access:
    return Access(
        region=values.get("region"),
        endpoint_url=values.get(endpoint_option),
        profile=values.get("profile"),
        role_arn=values.get("roleArn"),
        external_id=values.get("externalId"),
    )


def read_position(text: str) -> Position:
    """Read a position as a user writes it: either end in any case, or a time with its zone."""
    match text.strip().lower():
        case "trim_horizon":
            return TRIM_HORIZON
        case "latest":
            return LATEST
    try:
        return AtTime(datetime.fromisoformat(text.strip()))
    except InvalidPosition:
        raise ConfigurationError(
            f"{text!r} has no time zone: write it as {text.strip()}Z"
        ) from None
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is no position: write trim_horizon, latest, or a time such as "
            "2026-11-15T12:00:00Z, or a token of shardline.stream"
        ) from None


class _Values:
    """Options by their one name, whatever their case and prefix; unknown ones are refused."""

    def __init__(self, format_name: str, given: Mapping[str, str]) -> None:
        self.format_name = format_name
        known = {name.lower(): name for name in _NAMES[format_name]}
        self._values: dict[str, str] = {}
        for key, value in given.items():
            bare = re.sub(r"^(kinesis|dynamodb|dynamodb-streams)\.", "", key.lower())
            if bare not in known:
                raise ConfigurationError(_unknown(format_name, key, bare, known))
            name = known[bare]
            if self._values.get(name, value) != value:
                raise ConfigurationError(f"option {name} is given twice, with different values")
            self._values[name] = value

    def get(self, name: str) -> str | None:
        return self._values.get(name) or None

    def get_as(self, name: str, read: Callable[[str], T], default: T) -> T:
        text = self._values.get(name)
        if text is None:
            return default
        try:
            return read(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"option {name}: {error}") from None


def _address(values: _Values) -> str:
    scheme, noun = ("kinesis", "streamName")
    if values.format_name == DYNAMODB_STREAMS:
        scheme, noun = ("dynamodb", "tableName")
    name, arn = values.get(noun), values.get("streamARN")
    if name and arn:
        raise ConfigurationError(f"give {noun} or streamARN, not both")
    if not name and not arn:
        raise ConfigurationError(
            f'say what to read: .option("{noun}", …) or .option("streamARN", …)'
        )
    text = name or arn or ""
    if "," in text:
        raise ConfigurationError(
            f"{noun if name else 'streamARN'} names several streams: one query reads one stream; "
            "load each and union them"
        )
    return f"{scheme}://{text}"


def _unknown(format_name: str, key: str, bare: str, known: Mapping[str, str]) -> str:
    if bare in _SECRETS:
        return (
            f"option {key} is refused, because options end up in plans and logs: credentials come "
            "from the usual AWS places (environment, profile, instance role) or by roleArn"
        )
    if bare in _FAN_OUT:
        return f"option {key}: enhanced fan-out is not supported; leave it out to poll the shards"
    near = difflib.get_close_matches(bare, known, n=1)
    name = _KNOWN_ELSEWHERE.get(bare) or (known[near[0]] if near else None)
    hint = f"did you mean {name}?" if name else f"known are {', '.join(sorted(known.values()))}"
    return f'format "{format_name}" has no option {key}: {hint}'


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


def _wire(text: str) -> str:
    if text.strip().lower() not in WIRES:
        raise ConfigurationError(f"{text!r} is neither {' nor '.join(WIRES)}")
    return text.strip().lower()


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigurationError(f"{text!r} is not a whole number above 0")
    return int(text)
