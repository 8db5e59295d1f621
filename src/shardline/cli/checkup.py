"""The checks of `shardline doctor`: each makes the real call, and names the remedy if it fails."""

import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shardline.cli.program import with_option_names
from shardline.errors import (
    EXTRAS,
    ConfigurationError,
    ServiceUnreachable,
    ShardlineError,
    StreamNotFound,
)

if TYPE_CHECKING:
    from rich.text import Text

    from shardline.services.access import Access

OLDEST_PYTHON = (3, 11)
OLDEST_SPARK = (4, 2)
_PURPOSES = {
    "aiohttp": "shardline local, demo and dashboard",
    "prometheus_client": "metrics for Prometheus",
    "psycopg": "lease tables in PostgreSQL",
    "pydantic": "models of tables",
    "sqlalchemy": "lease tables in SQLite and PostgreSQL",
}


class Outcome(StrEnum):
    """The result of a check."""

    FINE = "fine"
    MISSING = "missing"
    OPTIONAL = "optional"


_SIGNS = {
    Outcome.FINE: ("✓", "green"),
    Outcome.MISSING: ("✗", "red"),
    Outcome.OPTIONAL: ("–", "dim"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    name: str
    outcome: Outcome
    detail: str
    remedy: str = ""

    @property
    def bad(self) -> bool:
        """True if something required is missing."""
        return self.outcome is Outcome.MISSING

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return {**asdict(self), "ok": not self.bad}

    def line(self, width: int) -> "Text":
        """Return the finding as one line of text."""
        from rich.text import Text

        sign, style = _SIGNS[self.outcome]
        text = Text(f"{sign} ", style=style).append(f"{self.name:<{width}}  ", style="bold")
        text.append(self.detail, style="" if self.outcome is not Outcome.OPTIONAL else "dim")
        if self.remedy:
            text.append(f": {self.remedy}", style="yellow" if self.bad else "dim")
        return text


class Checkup:
    """Checks this machine and, with the given access, AWS."""

    def __init__(self, access: "Access") -> None:
        self._access = access

    def machine(self) -> Iterator[Finding]:
        """Check Python, Spark, Java and the extras."""
        yield _python()
        spark = _spark()
        yield spark
        yield _java(needed=spark.outcome is not Outcome.OPTIONAL)
        for module, purpose in _PURPOSES.items():
            if importlib.util.find_spec(module) is None:
                remedy = f"for {purpose}: pip install 'shardline[{EXTRAS[module]}]'"
                yield Finding(module, Outcome.OPTIONAL, "not installed", remedy)
            else:
                yield Finding(module, Outcome.FINE, _version_of(module))

    def aws(self, *, needed: bool) -> Iterator[Finding]:
        """Check region, credentials and whether the endpoint answers.

        If they are not `needed`, what is missing is reported as optional.
        """
        from shardline.services.access import make_client

        try:
            client = make_client("kinesis", self._access)
        except ShardlineError as error:
            finding = _from_error("region", error)
            yield finding if needed else replace(finding, outcome=Outcome.OPTIONAL)
            return
        yield Finding("region", Outcome.FINE, client.meta.region_name)
        credentials = self._credentials(client.meta.endpoint_url)
        if credentials.bad and not needed:
            credentials = replace(credentials, outcome=Outcome.OPTIONAL)
        yield credentials
        yield _endpoint(client.meta.endpoint_url)
        client.close()

    def stream(self, address: str) -> Iterator[Finding]:
        """Check that the stream can be described, listed and read."""
        from shardline.core.positions import TRIM_HORIZON
        from shardline.services.connection import connect

        try:
            service = connect(address, self._access)
        except ShardlineError as error:
            yield _from_error("stream", error)
            return

        def read_one() -> str:
            shards = service.list_shards()
            if not shards:
                return "no shard to read"
            service.read(service.open(shards[-1].id, TRIM_HORIZON), 1)
            return f"read from {shards[-1].id}"

        try:
            try:
                yield Finding("may describe", Outcome.FINE, _described(service.describe()))
            except ShardlineError as error:
                yield _from_error("may describe", error)
                if isinstance(error, StreamNotFound | ServiceUnreachable):
                    return  # the other checks would fail for the same reason
            yield _try("may list", lambda: f"{len(service.list_shards())} shards")
            yield _try("may read", read_one)
        finally:
            service.close()

    def lease_table(
        self, address: str, app: str | None, endpoint_url: str | None
    ) -> Iterator[Finding]:
        """Check that the lease table can be read. Creates nothing."""
        from shardline.leases.address import missing_file, open_table

        if (file := missing_file(address)) is not None:
            missing = ConfigurationError(f"there is no file {file}: the first run creates it")
            yield _from_error("lease table", missing)
            return
        try:
            table = open_table(address, replace(self._access, endpoint_url=endpoint_url))
        except ShardlineError as error:
            yield _from_error("lease table", error)
            return

        def read() -> str:
            table.read_heartbeats(app or "doctor", "doctor")
            return f"{address.partition('://')[0]} answers"

        try:
            yield _try("lease table", read)
        finally:
            table.close()

    def _credentials(self, endpoint_url: str) -> Finding:
        import botocore.session
        from botocore.exceptions import BotoCoreError

        from shardline.services.access import is_loopback

        remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws configure`"
        try:
            session = botocore.session.Session(profile=self._access.profile)
            credentials = session.get_credentials()
        except BotoCoreError as error:
            return Finding("credentials", Outcome.MISSING, str(error), remedy)
        if credentials is not None:
            return Finding("credentials", Outcome.FINE, f"found ({credentials.method})")
        if is_loopback(urlsplit(endpoint_url).hostname or ""):
            return Finding("credentials", Outcome.OPTIONAL, "none, and a local server needs none")
        return Finding("credentials", Outcome.MISSING, "none found", remedy)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Finding("Python", Outcome.FINE, found)
    return Finding("Python", Outcome.MISSING, found, "install Python 3.11 or newer")


def _spark() -> Finding:
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        remedy = "for shardline run and the Spark source: pip install 'shardline[spark]'"
        return Finding("Spark", Outcome.OPTIONAL, "pyspark is not installed", remedy)
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST_SPARK:
        remedy = "pip install 'pyspark>=4.2', which has admission control for Python sources"
        return Finding("Spark", Outcome.MISSING, f"pyspark {found} is too old", remedy)
    return Finding("Spark", Outcome.FINE, f"pyspark {found}")


def _java(*, needed: bool) -> Finding:
    from shardline.spark.java import java_home

    try:
        return Finding("Java", Outcome.FINE, str(java_home()))
    except ShardlineError as error:
        detail, _, remedy = str(error).partition(": ")
        outcome = Outcome.MISSING if needed else Outcome.OPTIONAL
        return Finding("Java", outcome, detail, remedy)


def _endpoint(url: str) -> Finding:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy")):
        return Finding("endpoint", Outcome.OPTIONAL, f"{url} (behind a proxy: not tried)")
    try:
        socket.create_connection((parts.hostname or "", port), timeout=3).close()
    except OSError as error:
        remedy = "check --endpoint-url, --region and the network"
        return Finding("endpoint", Outcome.MISSING, f"{url} does not answer ({error})", remedy)
    return Finding("endpoint", Outcome.FINE, url)


def _try(name: str, action: Callable[[], str]) -> Finding:
    try:
        return Finding(name, Outcome.FINE, action())
    except ShardlineError as error:
        return _from_error(name, error)


def _from_error(name: str, error: ShardlineError) -> Finding:
    return Finding(name, Outcome.MISSING, with_option_names(error))


def _described(description: Any) -> str:
    hours = description.retention_seconds // 3600
    active = "active" if description.active else "not active yet"
    return f"{description.name} is {active} and keeps records for {hours} h"


def _version_of(module: str) -> str:
    try:
        return version(module.replace("_", "-"))
    except PackageNotFoundError:
        return "installed"
