"""What must be right before Spark is started for a consumer, checked in a second."""

from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from shardline.consumer.job import LeasePlace, StreamSource


def require_metrics(port: int | None) -> None:
    """Refuse a port that is in use, or metrics without the package that serves them."""
    if port is None:
        return
    if find_spec("prometheus_client") is None:
        raise ConfigurationError("--metrics-port needs: pip install 'shardline[metrics]'")
    from shardline.services.listening import listen

    listen("127.0.0.1", port, "pass another --metrics-port").close()


def require_stream(source: "StreamSource") -> None:
    """Refuse a stream that is not there, or that these credentials may not see."""
    from shardline.services.connection import connect

    with closing(connect(source.address, source.access)) as service:
        service.describe()


def require_table(leases: "LeasePlace") -> None:
    """Refuse a lease table that cannot be reached; one that is missing is created here."""
    from shardline.leases.address import open_table

    with closing(open_table(leases.address, leases.access)) as table:
        table.prepare()
