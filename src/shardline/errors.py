"""Every error that shardline raises on purpose.

ShardlineError
├── ConfigurationError         a bad address, a bad option, or missing credentials
│   └── MissingExtra           an optional package is not installed
├── InvalidPosition            a position or token that cannot be understood
├── ItemMismatch               an item does not fit its model, or a value does not fit DynamoDB
├── GapError                   the service no longer has records that were not delivered yet
├── LeaseLost                  another worker holds the shard now
├── PromiseBroken              the checker found records lost or out of order
└── ServiceError               the service refused, or could not be reached
    ├── StreamNotFound
    ├── ShardNotFound
    ├── IteratorExpired        internal: cursors reopen by themselves
    ├── ListingExpired         internal: shards are listed again from the start
    ├── PositionTrimmed        the service says that the position lies before the horizon
    ├── Throttled              the service refuses for now: a quota is used up
    └── ServiceUnreachable     no answer: endpoint, network or time-out

The message of each is one line that says what happened and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EXTRAS: Final = {
    "aiohttp": "local",
    "prometheus_client": "metrics",
    "psycopg": "postgresql",
    "pydantic": "tables",
    "pyspark": "spark",
    "rich": "cli",
    "sqlalchemy": "sql",
    "typer": "cli",
}
"""The optional packages, by the name they are imported with, and the extra that installs each."""


class ShardlineError(Exception):
    """Anything that shardline raises on purpose."""


class ConfigurationError(ShardlineError, ValueError):
    """A bad address, a bad option, or missing credentials."""


class MissingExtra(ConfigurationError, ImportError):
    """An optional package is not installed."""


class InvalidPosition(ShardlineError, ValueError):
    """A position or token that cannot be understood."""


class ItemMismatch(ShardlineError, ValueError):
    """An item does not fit its model, or DynamoDB cannot keep a value as it is."""


class GapError(ShardlineError):
    """The service no longer has records that were not delivered yet."""


class LeaseLost(ShardlineError):
    """Another worker holds the shard now."""


class PromiseBroken(ShardlineError):
    """The checker found records lost or out of order."""


class ServiceError(ShardlineError):
    """The service refused, or could not be reached."""


class StreamNotFound(ServiceError):
    """No stream (or table with a stream) has this name here."""


class ShardNotFound(ServiceError):
    """The service does not know this shard (any more)."""


class IteratorExpired(ServiceError):
    """An iterator was kept for longer than the service allows."""


class ListingExpired(ServiceError):
    """The pages of a listing were read too slowly: the token of the next one expired."""


class PositionTrimmed(ServiceError):
    """The position lies before the oldest record that the service still keeps."""


class Throttled(ServiceError):
    """The service refuses for now: a quota is used up."""


class ServiceUnreachable(ServiceError):
    """The service gave no answer: endpoint, network or time-out."""


@contextmanager
def optional_import(purpose: str) -> Iterator[None]:
    """Turn a failed import of an optional package into a `MissingExtra` that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(
            f"{purpose} needs {package}, which is not installed: "
            f"pip install 'shardline[{EXTRAS[package]}]'"
        ) from None
