"""Addresses of streams: `kinesis://orders`, `dynamodb://users`, or either with an ARN."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final, Literal, cast

from shardline.errors import ConfigurationError

SCHEMES: Final = ("kinesis", "dynamodb")

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_ARN: Final = re.compile(
    r"arn:[a-z0-9-]+:(?P<service>[a-z]+):(?P<region>[a-z0-9-]+):\d{12}:"
    r"(?:stream|table)/(?P<name>[A-Za-z0-9_.-]+)(?P<stream>/stream/[0-9T:.-]+)?"
)


@dataclass(frozen=True, slots=True)
class Address:
    """The service of a stream, its name or that of its table, and what an ARN adds."""

    service: Literal["kinesis", "dynamodb"]
    name: str
    stream_arn: str | None = None
    """The ARN of the stream itself, where the address gave one. A table's ARN gives only a name."""
    region: str | None = None
    """The region that an ARN names."""

    @property
    def stream_name(self) -> str:
        """The name under which leases are kept: that of a table differs from that of a stream."""
        return self.name if self.service == "kinesis" else f"dynamodb/{self.name}"

    def __str__(self) -> str:
        return f"{self.service}://{self.stream_arn or self.name}"


def parse_address(text: str) -> Address:
    """Return the address in a text. Raises a `ConfigurationError` that shows the right form."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ConfigurationError(f"{text!r} is not an address: write {_suggestion(text)}")
    if scheme not in SCHEMES:
        near = difflib.get_close_matches(scheme.lower(), SCHEMES, n=1)
        forms = [f"{known}://{rest}" for known in near or SCHEMES]
        raise ConfigurationError(f"{text!r}: unknown scheme {scheme!r}: write {' or '.join(forms)}")
    service = cast('Literal["kinesis", "dynamodb"]', scheme)
    if rest.startswith("arn:"):
        return _from_arn(text, service, rest)
    if not _NAME.fullmatch(rest):
        noun = "stream" if service == "kinesis" else "table"
        raise ConfigurationError(
            f"{text!r}: {rest!r} is not the name of a {noun}: write {scheme}://NAME, "
            "of letters, digits and _ . -"
        )
    return Address(service, rest)


def _from_arn(text: str, service: Literal["kinesis", "dynamodb"], arn: str) -> Address:
    match = _ARN.fullmatch(arn)
    if match is None:
        form = (
            "arn:aws:kinesis:REGION:ACCOUNT:stream/NAME"
            if service == "kinesis"
            else "arn:aws:dynamodb:REGION:ACCOUNT:table/NAME/stream/LABEL"
        )
        raise ConfigurationError(f"{text!r}: the ARN is malformed: write {service}://{form}")
    if match["service"] != service:
        raise ConfigurationError(
            f"{text!r}: the ARN belongs to {match['service']}: write {match['service']}://{arn}"
        )
    names_a_stream = service == "kinesis" or match["stream"] is not None
    return Address(service, match["name"], arn if names_a_stream else None, match["region"])


def _suggestion(text: str) -> str:
    if text.startswith("arn:") and (match := _ARN.fullmatch(text)):
        return f"{match['service']}://{text}"
    name = text if _NAME.fullmatch(text) else "NAME"
    return " or ".join(f"{scheme}://{name}" for scheme in SCHEMES)
