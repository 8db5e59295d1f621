"""Tags of streams and consumers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from shardline.local.kinesis.consumers import find_consumer
from shardline.local.kinesis.requests import MAX_TAGS
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.streams import Stream

_INVALID: Final = re.compile(r"[^\w .:/=+\-@%]")
_ILLEGAL: Final = "%"


def add_tags(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer AddTagsToStream."""
    stream = account.find_requested(request, now_ms)
    _add(stream.tags, request["Tags"], stream)


def remove_tags(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer RemoveTagsFromStream."""
    keys: list[str] = request["TagKeys"]
    stream = account.find_requested(request, now_ms)
    _remove(stream.tags, keys, stream)


def list_tags(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer ListTagsForStream."""
    stream = account.find_requested(request, now_ms)
    after = request.get("ExclusiveStartTagKey", "")
    limit = request.get("Limit", MAX_TAGS)
    keys = sorted(key for key in stream.tags if key > after)
    return {"Tags": _pairs(stream.tags, keys[:limit]), "HasMoreTags": len(keys) > limit}


def tag_resource(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer TagResource."""
    stream, tags = _resource(account, request, now_ms)
    _add(tags, request["Tags"], stream)


def untag_resource(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer UntagResource."""
    stream, tags = _resource(account, request, now_ms)
    _remove(tags, request["TagKeys"], stream)


def list_resource_tags(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer ListTagsForResource."""
    _, tags = _resource(account, request, now_ms)
    return {"Tags": _pairs(tags, sorted(tags))}


def check_tags(tags: dict[str, str], stream_name: str, action: str = "add tags to") -> None:
    """Raise `Refusal` if a tag has a character that is not allowed, or there are too many."""
    texts = [*tags, *tags.values()]
    if any(_INVALID.search(text) for text in texts):
        raise Refusal(
            "InvalidArgumentException",
            "Some tags contain invalid characters. Valid characters: "
            "Unicode letters, digits, white space, _ . / = + - % @.",
        )
    if any(_ILLEGAL in text for text in texts):
        raise Refusal(
            "InvalidArgumentException",
            f"Failed to {action} stream {stream_name} under account {ACCOUNT_ID} because some "
            "tags contained illegal characters. The allowed characters are Unicode letters, "
            "white-spaces, '_',',','/','=','+','-','@'.",
        )
    if len(tags) > MAX_TAGS:
        raise Refusal(
            "InvalidArgumentException",
            f"Failed to add tags to stream {stream_name} under account {ACCOUNT_ID} because a "
            f"given stream cannot have more than {MAX_TAGS} tags associated with it.",
        )


def _add(tags: dict[str, str], added: dict[str, str], stream: Stream) -> None:
    check_tags(added, stream.name)
    check_tags(tags | added, stream.name)
    tags.update(added)


def _remove(tags: dict[str, str], keys: list[str], stream: Stream) -> None:
    check_tags(dict.fromkeys(keys, ""), stream.name, "remove tags from")
    for key in keys:
        tags.pop(key, None)


def _pairs(tags: dict[str, str], keys: list[str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": tags[key]} for key in keys]


def _resource(
    account: Account, request: dict[str, Any], now_ms: int
) -> tuple[Stream, dict[str, str]]:
    arn: str = request["ResourceARN"]
    if "/consumer/" in arn:
        stream, consumer = find_consumer(account, {"ConsumerARN": arn}, now_ms)
        return stream, consumer.tags
    stream = account.find_requested({"StreamARN": arn}, now_ms)
    return stream, stream.tags
