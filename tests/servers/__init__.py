"""Real servers for tests and benches, each a context manager that yields its address.

    with servers.kinesalite() as server:
        boto3.client("kinesis", endpoint_url=server.endpoint_url)

The fixtures of the same names keep one server for the whole session.
"""

from tests.servers.aws import Endpoint, dynamodb_local, kinesalite, kinesis_mock, ministack
from tests.servers.postgres import Database, postgresql
from tests.servers.process import ServerFailed, ServerMissing

__all__ = [
    "Database",
    "Endpoint",
    "ServerFailed",
    "ServerMissing",
    "dynamodb_local",
    "kinesalite",
    "kinesis_mock",
    "ministack",
    "postgresql",
]
