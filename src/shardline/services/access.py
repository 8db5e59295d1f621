"""Clients of AWS, or of a server with its API: credentials, endpoints, time-outs.

botocore finds credentials and endpoints, signs and sends; it retries nothing. Retries are decided
in one place, `services.calls`. Every client keeps deadlines for whole answers, and takes an answer
that is not whole for an error.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import BotoCoreError, NoCredentialsError
from botocore.loaders import Loader, create_loader

from shardline.errors import ConfigurationError
from shardline.services.deadlines import set_deadlines
from shardline.services.failures import read_failure
from shardline.services.wire.handler import require_whole_answers

_PLACEHOLDER: Final = "local"
_PLACEHOLDER_REGION: Final = "us-east-1"


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the service; what is None comes from the usual AWS environment and files."""

    region: str | None = None
    endpoint_url: str | None = None
    profile: str | None = None
    role_arn: str | None = None
    """A role to assume, with the credentials that the other fields give."""
    external_id: str | None = None
    """What the role's owner asks for before it may be assumed."""
    connect_timeout_seconds: float = 5
    read_timeout_seconds: float = 30
    """For one whole answer, from the request to its last byte. A page holds up to 10 MB, and a busy
    service may take some seconds."""


def make_client(service: str, access: Access, *, whole_answers: bool = True) -> Any:
    """Return a botocore client. Raises a `ConfigurationError` that says what is missing.

    Only a client for an answer that goes on must not wait for whole ones.
    """
    url = access.endpoint_url
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"endpoint_url {url!r} has no scheme: write http://{url}")
    try:
        client = _make_client(service, access)
    except (BotoCoreError, ValueError) as error:
        raise read_failure(error, service, url or service).error from error
    set_deadlines(client)
    if whole_answers:
        require_whole_answers(client)
    return client


def _make_client(service: str, access: Access) -> Any:
    session = botocore.session.Session(profile=access.profile)
    loader = _loader(session.get_config_variable("data_path"))
    session.register_component("data_loader", loader)
    region = access.region or session.get_config_variable("region")
    url = access.endpoint_url or _endpoint_of_environment(service)
    if url and is_loopback(urlsplit(url).hostname or ""):
        # A server on this machine checks neither, and a lookup at the metadata service of a cloud
        # machine would only wait for its time-out.
        region = region or _PLACEHOLDER_REGION
        session.get_component("credential_provider").remove("iam-role")
        if session.get_credentials() is None:
            session.set_credentials(_PLACEHOLDER, _PLACEHOLDER)
    if access.role_arn is not None:
        session = _session_in_role(access, session, region)
    return session.create_client(
        service,
        region_name=region,
        endpoint_url=access.endpoint_url,
        config=_config(access),
    )


@lru_cache
def _loader(data_path: str | None) -> Loader:
    """Return what reads the description of a service: once for all clients of this process."""
    return create_loader(data_path)


def _config(access: Access) -> Config:
    return Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=access.connect_timeout_seconds,
        read_timeout=access.read_timeout_seconds,
        tcp_keepalive=True,
        max_pool_connections=64,
        user_agent_extra="shardline",
    )


class _Role(CredentialProvider):  # type: ignore[misc] # botocore publishes no types
    METHOD = "assume-role"

    def __init__(self, fetcher: AssumeRoleCredentialFetcher) -> None:
        super().__init__()
        self._fetcher = fetcher

    def load(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(self._fetcher.fetch_credentials, self.METHOD)


def _session_in_role(
    access: Access, source: botocore.session.Session, region: str | None
) -> botocore.session.Session:
    """Return a session whose credentials are the role's, renewed before they expire."""

    def make_sts(name: str, **options: Any) -> Any:
        client = source.create_client(name, region_name=region, config=_config(access), **options)
        set_deadlines(client)
        return client

    credentials = source.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    fetcher = AssumeRoleCredentialFetcher(
        make_sts,
        credentials,
        access.role_arn,
        extra_args={
            "RoleSessionName": "shardline",
            **({"ExternalId": access.external_id} if access.external_id else {}),
        },
    )
    session = botocore.session.Session()
    session.register_component("data_loader", source.get_component("data_loader"))
    session.register_component("credential_provider", CredentialResolver([_Role(fetcher)]))
    return session


def _endpoint_of_environment(service: str) -> str | None:
    name = {"dynamodbstreams": "DYNAMODB_STREAMS"}.get(service, service.upper())
    return os.environ.get(f"AWS_ENDPOINT_URL_{name}") or os.environ.get("AWS_ENDPOINT_URL")


def is_loopback(host: str) -> bool:
    """Return true for a loopback address and the names that always stand for one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
