"""Shard iterators and page tokens: opaque texts that carry their content and creation time."""

from __future__ import annotations

import base64
import binascii
from typing import Final

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


_decode_iterator = msgspec.json.Decoder(ShardIterator).decode
_decode_page = msgspec.json.Decoder(ListingPage).decode


def token_text(token: ShardIterator | ListingPage) -> str:
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
            f"Iterator expired. It was created {now_ms - iterator.issued_ms} ms ago "
            f"while {ITERATOR_LIFE_MS} ms are allowed.",
        )


def parse_page(text: str, now_ms: int) -> ListingPage:
    """Parse a page token, or raise `Refusal` if it is invalid or expired."""
    try:
        page = _decode_page(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise Refusal("InvalidArgumentException", "Invalid NextToken.") from None
    if now_ms - page.issued_ms > PAGE_LIFE_MS:
        raise Refusal("ExpiredNextTokenException", "NextToken is older than five minutes.")
    return page
