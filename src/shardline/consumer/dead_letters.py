"""Where records go that a consumer could not process: durable before the consumer goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from shardline.consumer.letters.letter import Letter, Origin
from shardline.errors import ConfigurationError
from shardline.services.access import Access, make_client
from shardline.services.calls import Calls, Patience

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.consumer.consumer import ShardBatch

_PATIENCE: Final = Patience(total_seconds=20)
"""Whoever writes letters tries again, and can see in between that the lease is gone."""
_READ_TIMEOUT_SECONDS: Final = 10.0


class LetterWriter(Protocol):
    """What a delivery needs of a place for dead letters."""

    def write(
        self, batch: ShardBatch, reason: str, *, parked: bool = False, hash_key: str | None = None
    ) -> tuple[str, ...]:
        """Write a letter for each record; return their ids, in order, when all are durable.

        `parked` says that the records' keys are parked, or are parked next; `hash_key` is the
        hash key of a DynamoDB table, if it is known. To write the same records again changes
        nothing but their reason and fence.
        """


class LetterBox(LetterWriter, Protocol):
    """A place for dead letters."""

    def remove(self, letters: Sequence[Letter]) -> None:
        """Remove letters that were processed after all; return when that is durable.

        A letter that was written again in the meantime, under a higher fence, stays.
        """

    def close(self) -> None:
        """Close the connections."""


def open_dead_letters(
    to: str, access: Access, patience: Patience = _PATIENCE, *, origin: Origin | None = None
) -> LetterBox:
    """Return the place at `kinesis://STREAM`, `dynamodb://TABLE` or `file:///FOLDER`.

    The endpoint in `access` is that of Kinesis; another DynamoDB than AWS's is named by the
    environment.
    """
    scheme, name = parse_place(to)
    origin = origin or Origin()
    access = replace(
        access, read_timeout_seconds=min(access.read_timeout_seconds, _READ_TIMEOUT_SECONDS)
    )
    match scheme:
        case "kinesis":
            from shardline.consumer.letters.stream import StreamOfLetters

            calls = Calls(make_client("kinesis", access), f"dead letters to {to}", patience)
            return StreamOfLetters(calls, name, origin, patience)
        case "dynamodb":
            from shardline.consumer.letters.table import TableOfLetters

            # The stream's endpoint is another server than DynamoDB's: the environment names it.
            client = make_client("dynamodb", replace(access, endpoint_url=None))
            return TableOfLetters(Calls(client, f"dead letters to {to}", patience), name, origin)
        case _:
            from shardline.consumer.letters.folder import FolderOfLetters

            return FolderOfLetters(folder_of(to), origin)


def parse_place(address: str) -> tuple[str, str]:
    """Return the scheme and the name in the address of a place, or raise `ConfigurationError`."""
    scheme, _, name = address.partition("://")
    if (scheme in {"kinesis", "dynamodb"} and name) or (scheme == "file" and name.startswith("/")):
        return scheme, name
    raise ConfigurationError(
        f"{address!r} is no place for dead letters: write kinesis://STREAM, dynamodb://TABLE or "
        "file:///FOLDER"
    )


def folder_of(address: str) -> str:
    """Return the path in `file:///FOLDER`."""
    return url2pathname(urlsplit(address).path)
