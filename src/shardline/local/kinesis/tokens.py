"""Shard iterators and page tokens: opaque texts that carry their content and creation time."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from shardline.local.refusals import Refusal

ITERATOR_LIFE_MS: Final = 300_000
PAGE_LIFE_MS: Final = 300_000


class ShardIterator(msgspec.Struct, frozen=True, array_like=True):
    """A position in a shard: the next record is the first with this tick or a later one."""

    stream: str
    created_ms: int
    shard_index: int
    tick: int
    issued_ms: int


class ListingPage(msgspec.Struct, frozen=True, array_like=True):
    """The next page of a listing of shards, with its filter."""

    stream: str
    created_ms: int
    after_index: int
    filter_type: str
    filter_index: int
    filter_ms: int
    issued_ms: int


class ConsumerPage(msgspec.Struct, frozen=True, array_like=True):
    """The next page of a listing of consumers."""

    stream: str
    created_ms: int
    after_name: str
    issued_ms: int


_decode_iterator = msgspec.json.Decoder(ShardIterator).decode

Page = TypeVar("Page", ListingPage, ConsumerPage)


def token_text(token: ShardIterator | ListingPage | ConsumerPage) -> str:
    """Return a token as text."""
    return base64.b64encode(msgspec.json.encode(token)).decode()


def parse_iterator(text: str) -> ShardIterator:
    """Parse an iterator, or raise `Refusal`."""
    try:
        return _decode_iterator(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise Refusal("InvalidArgumentException", "Invalid ShardIterator.") from None


def require_fresh(iterator: ShardIterator, now_ms: int) -> None:
    """Raise `Refusal` if an iterator is older than five minutes."""
    if now_ms - iterator.issued_ms > ITERATOR_LIFE_MS:
        raise Refusal(
            "ExpiredIteratorException",
            f"Iterator expired. The iterator was created at time {_time_text(iterator.issued_ms)} "
            f"while right now it is {_time_text(now_ms)} which is further in the future than the "
            f"tolerated delay of {ITERATOR_LIFE_MS} milliseconds.",
        )


def parse_page(kind: type[Page], text: str, now_ms: int) -> Page:
    """Parse a page token, or raise `Refusal` if it is invalid or expired."""
    try:
        page = msgspec.json.decode(base64.b64decode(text, validate=True), type=kind)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise Refusal("InvalidArgumentException", "Invalid NextToken.") from None
    if now_ms - page.issued_ms > PAGE_LIFE_MS:
        raise Refusal("ExpiredNextTokenException", "NextToken is older than five minutes.")
    return page


def _time_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
