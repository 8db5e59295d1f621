"""Cuts an expression into tokens, and words the service's syntax errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shardline.local.dynamodb.values import invalid

if TYPE_CHECKING:
    from shardline.local.refusals import Refusal

_TOKEN: Final = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<alias>#[A-Za-z0-9_]+)|(?P<value>:[A-Za-z0-9_]+)"
    r"|(?P<number>\d+)|(?P<sign><>|<=|>=|[=<>(),.+\-\[\]])|(?P<unknown>\S)"
)
_KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE"}
)
_MOST_BYTES: Final = 4096
_MOST_OPERATORS: Final = 300
_DEEPEST: Final = 60
"""Of parentheses: the parser and what evaluates its tree are recursive."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind, its text, and where it stands."""

    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """The tokens of one expression, read one after the other."""

    def __init__(self, label: str, text: str) -> None:
        self.label: Final = label
        """Which expression of the request this is, such as "ConditionExpression"."""
        self._text = text
        if not text.strip():
            raise self.error("The expression can not be empty;")
        if (size := len(text.encode())) > _MOST_BYTES:
            raise self.error(
                f"Expression size has exceeded the maximum allowed size; expression size: {size}"
            )
        self._tokens = [_token(match) for match in _TOKEN.finditer(text)]
        self._check_bounds()
        self._tokens.append(Token("end", "<EOF>", len(text), len(text)))
        self._index = 0

    def _check_bounds(self) -> None:
        operators = sum(token.kind == "keyword" for token in self._tokens)
        if operators > _MOST_OPERATORS:
            raise self.error(
                f"The expression contains too many operators; operator count: {operators}"
            )
        depth = 0
        for token in self._tokens:
            depth += (token.text == "(") - (token.text == ")")
            if depth > _DEEPEST:
                raise self.error("The expression has redundant parentheses;")

    @property
    def next(self) -> Token:
        """The next token, which stays the next one."""
        return self._tokens[self._index]

    def at(self, *texts: str) -> bool:
        """Return true if the next token is one of these signs or keywords."""
        token = self.next
        if token.kind == "keyword":
            return token.text.upper() in texts
        return token.kind == "sign" and token.text in texts

    def at_kind(self, *kinds: str) -> bool:
        """Return true if the next token is of one of these kinds."""
        return self.next.kind in kinds

    def take(self, *kinds: str) -> Token:
        """Return the next token and move on. Raises a syntax error if it is of another kind."""
        token = self.next
        if kinds and token.kind not in kinds:
            raise self.syntax_error()
        self._index += 1
        return token

    def expect(self, text: str) -> None:
        """Move past this sign or keyword, or raise a syntax error."""
        if not self.at(text):
            raise self.syntax_error()
        self._index += 1

    def skip(self, text: str) -> bool:
        """Move past this sign or keyword if it is next; return whether it was."""
        found = self.at(text)
        self._index += found
        return found

    def followed_by(self, text: str) -> bool:
        """Return true if the token after the next one is this sign."""
        following = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        return following.kind == "sign" and following.text == text

    def end(self) -> None:
        """Raise a syntax error if there is more."""
        if not self.at_kind("end"):
            raise self.syntax_error()

    def syntax_error(self) -> Refusal:
        """Return the service's syntax error at the next token."""
        token = self.next
        first = self._tokens[max(self._index - 1, 0)]
        last = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        near = self._text[first.start : last.end if last.kind != "end" else token.end]
        return self.error(f'Syntax error; token: "{token.text}", near: "{near}"')

    def error(self, message: str) -> Refusal:
        """Return a refusal of this expression."""
        return invalid(f"Invalid {self.label}: {message}")


def _token(match: re.Match[str]) -> Token:
    kind = match.lastgroup or "unknown"
    if kind == "name" and match[0].upper() in _KEYWORDS:
        kind = "keyword"
    return Token(kind, match[0], match.start(), match.end())
