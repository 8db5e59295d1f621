"""Checks that a request carries an AWS signature. Whether the signature is right is not checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from shardline.local.refusals import Refusal

_HEADER_PARTS: Final = ("Credential", "Signature", "SignedHeaders")
_QUERY_PARTS: Final = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
    "X-Amz-Date",
)


def require_signature(headers: Mapping[str, str], query: Mapping[str, str]) -> None:
    """Raise `Refusal` unless a request has all parts of a signature, in its headers or query."""
    authorization = headers.get("Authorization")
    in_query = "X-Amz-Algorithm" in query
    if authorization is not None and in_query:
        raise Refusal(
            "InvalidSignatureException",
            "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP "
            "header.",
        )
    if authorization is not None:
        _require_header_parts(authorization, headers)
    elif in_query:
        _require_query_parts(query)
    else:
        raise Refusal("MissingAuthenticationTokenException", "Missing Authentication Token")


def _require_header_parts(authorization: str, headers: Mapping[str, str]) -> None:
    pairs = (part.strip().partition("=") for part in re.split(r"[, ]", authorization)[1:])
    present = {name for name, _, value in pairs if value}
    missing = [
        f"Authorization header requires '{name}' parameter. "
        for name in _HEADER_PARTS
        if name not in present
    ]
    if "X-Amz-Date" not in headers and "Date" not in headers:
        missing.append(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        )
    if missing:
        # Header bytes that are not UTF-8 arrive as surrogates, which no answer can hold.
        shown = authorization[:4096].encode("utf-8", "surrogateescape").decode("latin-1")
        message = f"{''.join(missing)}Authorization={shown}"
        raise Refusal("IncompleteSignatureException", message)


def _require_query_parts(query: Mapping[str, str]) -> None:
    missing = [
        f"AWS query-string parameters must include '{name}'. "
        for name in _QUERY_PARTS
        if not query.get(name)
    ]
    if missing:
        message = f"{''.join(missing)}Re-examine the query-string parameters."
        raise Refusal("IncompleteSignatureException", message)
