"""Admission of HTTP requests by their Host and Origin.

Everything that runs on this machine can reach the port, a web browser included. A page of another
site must neither read the answers nor have an effect: its requests carry its Origin, or, if its
own name was made to point here (DNS rebinding), its name as Host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from shardline.services.access import is_loopback

_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


class Admission:
    """Which hosts and origins a service answers: loopback, its own host and those allowed."""

    def __init__(self, bound_host: str, allowed_hosts: Iterable[str] = ()) -> None:
        self._names = frozenset(name.lower() for name in (bound_host, *allowed_hosts) if name)
        self._any_address = bound_host in _WILDCARDS

    def refusal(self, host: str | None, origin: str | None) -> str | None:
        """Return why a request is not admitted, or None if it is."""
        name = None if host is None or "@" in host else _host_name(f"//{host}")
        if name is None or not self._admits(name):
            return f"Host {(host or '')[:140]!r} is not allowed: use --allow-host to add it"
        if origin is None:
            return None
        # Another page of this machine, on whatever port, is admitted.
        origin_name = _host_name(origin) if origin.startswith(("http://", "https://")) else None
        if origin_name is None or not self._admits(origin_name):
            return f"Origin {origin[:140]!r} is not allowed"
        return None

    def _admits(self, name: str) -> bool:
        if name in self._names or is_loopback(name):
            return True
        return self._any_address and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
