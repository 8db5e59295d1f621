"""Dead letters in a table of DynamoDB, whose hash key is `id`: one item for each, or for a part."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from shardline.consumer.letters.letter import Letter, Origin, in_parts, letters_for
from shardline.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shardline.consumer.consumer import ShardBatch
    from shardline.services.calls import Calls

_MOST_BYTES: Final = 350_000
"""An item has at most 400 KB, with its id and its reason."""


class TableOfLetters:
    """Puts items; a letter that has room in one is overwritten when it is written again."""

    def __init__(self, calls: Calls, table_name: str, origin: Origin) -> None:
        self._calls = calls
        self._table_name = table_name
        self._origin = origin

    def write(
        self, batch: ShardBatch, reason: str, *, parked: bool = False, hash_key: str | None = None
    ) -> tuple[str, ...]:
        """Put the items of each letter."""
        at = datetime.now(UTC)
        letters = letters_for(batch, reason, self._origin, at, parked=parked, hash_key=hash_key)
        for letter in letters:
            for item in items_of(letter):
                self._calls.call("put_item", TableName=self._table_name, Item=item)
        return tuple(letter.id for letter in letters)

    def remove(self, letters: Sequence[Letter]) -> None:
        """Delete the items of each letter, unless it was written again under a higher fence."""
        for letter in letters:
            for item in items_of(letter):
                self._delete(item)

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()

    def _delete(self, item: dict[str, Any]) -> None:
        try:
            self._calls.call(
                "delete_item",
                TableName=self._table_name,
                Key={"id": item["id"]},
                ConditionExpression="fence = :fence",
                ExpressionAttributeValues={":fence": item["fence"]},
            )
        except ServiceError as error:
            response = getattr(error.__cause__, "response", {})
            if response.get("Error", {}).get("Code") != "ConditionalCheckFailedException":
                raise


def items_of(letter: Letter) -> Iterator[dict[str, Any]]:
    """Yield the items of a letter.

    The ids of parts have the fence in them: two writers of one letter, of which one has lost its
    lease, must not overwrite each other's parts.
    """
    lines = in_parts(letter, _MOST_BYTES)
    fence = ".".join(map(str, letter.fence))
    for number, line in enumerate(lines):
        part = "" if len(lines) == 1 else f"#{fence}#{number}"
        yield {
            "id": {"S": letter.id + part},
            "fence": {"S": fence},
            "reason": {"S": letter.reason},
            "letter": {"S": line.decode()},
        }
