"""What an exception of botocore means: an error of ours, and whether a retry may help."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import msgspec
from botocore import exceptions as aws
from botocore.parsers import ResponseParserError

from shardline.errors import (
    ConfigurationError,
    InvalidPosition,
    IteratorExpired,
    ListingExpired,
    PositionTrimmed,
    ServiceError,
    ServiceUnreachable,
    ShardlineError,
    StreamNotFound,
    Throttled,
)

_THROTTLING: Final = frozenset(
    {
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_NOT_ALLOWED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "KMSAccessDeniedException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_NO_CREDENTIALS: Final = (
    aws.NoCredentialsError,
    aws.PartialCredentialsError,
    aws.CredentialRetrievalError,
    aws.TokenRetrievalError,
    aws.SSOError,
)
_NO_ANSWER: Final = (
    aws.ConnectionError,
    aws.HTTPClientError,
    aws.IncompleteReadError,
    ResponseParserError,
    msgspec.DecodeError,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of ours, and whether the same call may succeed a little later."""

    error: ShardlineError
    passing: bool = False
    no_contact: bool = False
    """The service was not reached: nothing listens at the endpoint, or TLS or a proxy failed. If it
    never was reached, that is a mistake in the configuration more often than an outage."""


def read_failure(error: Exception, subject: str, endpoint: str) -> Failure:
    """Return what an exception of botocore means for a call about `subject`, an address."""
    match error:
        case aws.ClientError():
            return _read_refusal(error, subject, endpoint)
        case aws.NoRegionError():
            message = "no AWS region: pass region=…, or set AWS_REGION or AWS_DEFAULT_REGION"
            return Failure(ConfigurationError(f"{subject}: {message}"))
        case aws.ProfileNotFound():
            message = f"{error}: name one that `aws configure list-profiles` prints"
            return Failure(ConfigurationError(f"{subject}: {_one_line(message)}"))
        case _ if isinstance(error, _NO_CREDENTIALS):
            message = (
                f"no usable AWS credentials ({_one_line(str(error))}): set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, pass profile=… or role_arn=…, or run `aws configure`"
            )
            return Failure(ConfigurationError(f"{subject}: {message}"))
        case aws.EndpointConnectionError() | aws.ConnectTimeoutError():
            message = f"nothing answers at {endpoint}: check endpoint_url, region and network"
            return Failure(ServiceUnreachable(f"{subject}: {message}"), True, no_contact=True)
        case aws.SSLError() | aws.ProxyConnectionError():
            message = f"no secure connection to {endpoint} ({_one_line(str(error))})"
            advice = "check proxy and certificates"
            return Failure(
                ServiceUnreachable(f"{subject}: {message}: {advice}"), True, no_contact=True
            )
        case _ if isinstance(error, _NO_ANSWER):
            message = f"no complete answer from {endpoint} ({_one_line(str(error))})"
            return Failure(ServiceUnreachable(f"{subject}: {message}"), True)
        case aws.ParamValidationError():
            return Failure(InvalidPosition(f"{subject}: refused ({_one_line(str(error))})"))
        case aws.BotoCoreError() | ValueError():
            return Failure(ConfigurationError(f"{subject}: {_one_line(str(error))}"))
    return Failure(ServiceError(f"{subject}: {type(error).__name__}: {_one_line(str(error))}"))


def _read_refusal(error: aws.ClientError, subject: str, endpoint: str) -> Failure:
    code = error.response.get("Error", {}).get("Code") or "Unknown"
    text = _one_line(error.response.get("Error", {}).get("Message") or "no reason given")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    refusal = f"{subject}: {error.operation_name} refused with {code}: {text}"
    if code in _THROTTLING or status == 429:
        message = f"{error.operation_name} throttled by the service ({code})"
        return Failure(Throttled(f"{subject}: {message}"), passing=True)
    if status >= 500:
        return Failure(ServiceUnreachable(f"{refusal} (status {status})"), passing=True)
    if code in _NOT_ALLOWED:
        return Failure(ConfigurationError(f"{refusal}: check credentials, region and IAM policy"))
    match code:
        case "ResourceNotFoundException":
            message = f"not found at {endpoint}: check the name, region and account"
            return Failure(StreamNotFound(f"{subject}: {message}"))
        case "ExpiredIteratorException":
            return Failure(IteratorExpired(refusal))
        case "ExpiredNextTokenException":
            return Failure(ListingExpired(refusal))
        case "TrimmedDataAccessException":
            return Failure(PositionTrimmed(refusal))
        case "InvalidArgumentException" | "ValidationException":
            return Failure(InvalidPosition(refusal))
    return Failure(ServiceError(refusal))


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().rstrip(".")
