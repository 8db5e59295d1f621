"""Parses condition, update and projection expressions by recursive descent.

condition   = conjunction {OR conjunction}
conjunction = negation {AND negation}
negation    = NOT negation | predicate
predicate   = operand [comparator operand | BETWEEN operand AND operand | IN "(" operands ")"]
operand     = path | :value | function "(" operands ")" | "(" condition or operand ")"
path        = name {"." name | "[" number "]"}
update      = {(SET | REMOVE | ADD | DELETE) action {"," action}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from shardline.local.dynamodb.lexer import Tokens
from shardline.local.dynamodb.reserved import RESERVED_WORDS
from shardline.local.dynamodb.syntax import (
    Action,
    And,
    Arithmetic,
    Between,
    Comparison,
    Condition,
    Function,
    In,
    Not,
    Operand,
    Or,
    Path,
    Placeholder,
    Section,
)

if TYPE_CHECKING:
    from shardline.local.dynamodb.placeholders import Placeholders
    from shardline.local.dynamodb.syntax import Comparator
    from shardline.local.refusals import Refusal

_CONDITIONS: Final = frozenset(
    {"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains"}
)
_CONDITION_FUNCTIONS: Final = _CONDITIONS | {"size"}
_UPDATE_FUNCTIONS: Final = frozenset({"if_not_exists", "list_append"})
_COMPARATORS: Final = ("=", "<>", "<", "<=", ">", ">=")
_SECTIONS: Final = ("SET", "REMOVE", "ADD", "DELETE")


def parse_condition(label: str, text: str, placeholders: Placeholders) -> Condition:
    """Parse a condition, filter or key condition. Raises `Refusal` with the service's words."""
    return _Parser(Tokens(label, text), placeholders).condition_to_end()


def parse_update(text: str, placeholders: Placeholders) -> tuple[Action, ...]:
    """Parse an update expression."""
    return _Parser(Tokens("UpdateExpression", text), placeholders, in_update=True).update()


def parse_projection(text: str, placeholders: Placeholders) -> tuple[Path, ...]:
    """Parse a projection expression."""
    return _Parser(Tokens("ProjectionExpression", text), placeholders).projection()


class _Parser:
    def __init__(
        self, tokens: Tokens, placeholders: Placeholders, *, in_update: bool = False
    ) -> None:
        self._tokens = tokens
        self._placeholders = placeholders
        self._in_update = in_update
        self._last_parenthesized: object = None

    # --- whole expressions --------------------------------------------------------------------

    def condition_to_end(self) -> Condition:
        node = self._disjunction()
        self._tokens.end()
        return self._condition(node)

    def projection(self) -> tuple[Path, ...]:
        paths = [self._path()]
        while self._tokens.skip(","):
            paths.append(self._path())
        self._tokens.end()
        return tuple(paths)

    def update(self) -> tuple[Action, ...]:
        actions: list[Action] = []
        seen: set[str] = set()
        while not (self._tokens.at_kind("end") and seen):
            if not self._tokens.at(*_SECTIONS):
                raise self._tokens.syntax_error()
            section = cast("Section", self._tokens.take().text.upper())
            if section in seen:
                raise self._tokens.error(
                    f'The "{section}" section can only be used once in an update expression;'
                )
            seen.add(section)
            actions.append(self._action(section))
            while self._tokens.skip(","):
                actions.append(self._action(section))
        return tuple(actions)

    def _action(self, section: Section) -> Action:
        path = self._path()
        match section:
            case "REMOVE":
                return Action(section, path, None)
            case "SET":
                self._tokens.expect("=")
                return Action(section, path, self._sum())
            case "ADD" | "DELETE":
                if not self._tokens.at_kind("value"):
                    raise self._tokens.syntax_error()
                return Action(section, path, self._operand())

    # --- conditions ---------------------------------------------------------------------------

    def _disjunction(self) -> Condition | Operand:
        node = self._conjunction()
        while self._tokens.skip("OR"):
            node = Or(self._condition(node), self._condition(self._conjunction()))
        return node

    def _conjunction(self) -> Condition | Operand:
        node = self._negation()
        while self._tokens.skip("AND"):
            node = And(self._condition(node), self._condition(self._negation()))
        return node

    def _negation(self) -> Condition | Operand:
        if self._tokens.skip("NOT"):
            return Not(self._condition(self._negation()))
        return self._predicate()

    def _predicate(self) -> Condition | Operand:
        left = self._parenthesized() if self._tokens.at("(") else self._operand()
        if self._tokens.at(*_COMPARATORS):
            comparator = cast("Comparator", self._tokens.take().text)
            return Comparison(comparator, self._compared(left), self._compared(self._operand()))
        if self._tokens.skip("BETWEEN"):
            low = self._compared(self._operand())
            self._tokens.expect("AND")
            return Between(self._compared(left), low, self._compared(self._operand()))
        if self._tokens.skip("IN"):
            self._tokens.expect("(")
            choices = [self._compared(self._operand())]
            while self._tokens.skip(","):
                choices.append(self._compared(self._operand()))
            self._tokens.expect(")")
            return In(self._compared(left), tuple(choices))
        return left

    def _parenthesized(self) -> Condition | Operand:
        self._tokens.expect("(")
        doubled = self._tokens.at("(")
        inside = self._disjunction()
        self._tokens.expect(")")
        if doubled and inside is self._last_parenthesized:
            raise self._tokens.error("The expression has redundant parentheses;")
        self._last_parenthesized = inside
        return inside

    def _condition(self, node: Condition | Operand) -> Condition:
        """Return a node that is a condition, or raise: an operand alone is none."""
        if isinstance(node, Path | Placeholder | Arithmetic):
            raise self._tokens.syntax_error()
        if isinstance(node, Function) and node.name not in _CONDITIONS:
            raise self._misused(node.name)
        return node

    def _compared(self, node: Condition | Operand) -> Operand:
        """Return a node that can be compared, or raise: a condition cannot."""
        if isinstance(node, Function) and node.name in _CONDITIONS:
            raise self._misused(node.name)
        if not isinstance(node, Path | Placeholder | Function | Arithmetic):
            raise self._tokens.syntax_error()
        return node

    def _misused(self, function: str) -> Refusal:
        return self._tokens.error(
            "The function is not allowed to be used this way in an expression; function: "
            f"{function}"
        )

    # --- operands -----------------------------------------------------------------------------

    def _sum(self) -> Operand:
        left = self._operand()
        for sign in ("+", "-"):
            if self._tokens.skip(sign):
                return Arithmetic("+" if sign == "+" else "-", left, self._operand())
        return left

    def _operand(self) -> Operand:
        if self._tokens.skip("("):
            inside = self._sum() if self._in_update else self._operand()
            self._tokens.expect(")")
            return inside
        if self._tokens.at_kind("value"):
            return self._placeholders.value(self._tokens.take().text, self._tokens)
        if self._tokens.at_kind("name") and self._tokens.followed_by("("):
            return self._function()
        return self._path()

    def _function(self) -> Function:
        name = self._tokens.take("name").text
        allowed = _UPDATE_FUNCTIONS if self._in_update else _CONDITION_FUNCTIONS
        if name not in _CONDITION_FUNCTIONS | _UPDATE_FUNCTIONS:
            raise self._tokens.error(f"Invalid function name; function: {name}")
        self._tokens.expect("(")
        operands = [self._operand()]
        while self._tokens.skip(","):
            operands.append(self._operand())
        self._tokens.expect(")")
        if name not in allowed:
            kind = "an update" if self._in_update else "a condition"
            raise self._tokens.error(
                f"The function is not allowed in {kind} expression; function: {name}"
            )
        return Function(name, tuple(operands))

    def _path(self) -> Path:
        parts: list[str | int] = [self._name()]
        while True:
            if self._tokens.skip("."):
                parts.append(self._name())
            elif self._tokens.skip("["):
                parts.append(int(self._tokens.take("number").text))
                self._tokens.expect("]")
            else:
                return Path(tuple(parts))

    def _name(self) -> str:
        token = self._tokens.take("name", "alias")
        if token.kind == "alias":
            return self._placeholders.name(token.text, self._tokens)
        if token.text.upper() in RESERVED_WORDS:
            raise self._tokens.error(
                f"Attribute name is a reserved keyword; reserved keyword: {token.text}"
            )
        return token.text
