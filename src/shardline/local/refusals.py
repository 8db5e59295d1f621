"""Error answers of the embedded service, by the exception names of AWS."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """An error answer: AWS's exception name, a message and the HTTP status."""

    def __init__(self, name: str, message: str = "", status: int = 400) -> None:
        super().__init__(f"{name}: {message}" if message else name)
        self.name = name
        self.message = message
        self.status = status
        self.fields: dict[str, Any] = {}
        """Further members of the error answer, such as CancellationReasons."""

    def members(self) -> dict[str, Any]:
        """Return the members of the error answer, as AWS writes them."""
        if not self.message:
            return {"__type": self.name, **self.fields}
        # AWS spells the member in two ways.
        member = "Message" if self.name == "SerializationException" else "message"
        return {"__type": self.name, member: self.message, **self.fields}
