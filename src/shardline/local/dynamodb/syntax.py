"""The parts of an expression as the parser returns them; values are still placeholders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Path:
    """The place of an attribute: names and list indexes, such as ("orders", 0, "total")."""

    parts: tuple[str | int, ...]

    def __str__(self) -> str:
        # The service writes paths so in its messages.
        return f"[{', '.join(f'[{p}]' if isinstance(p, int) else p for p in self.parts)}]"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A value that was given with the request: `:name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A call such as `size(path)`."""

    name: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A sum or difference in an update."""

    sign: Literal["+", "-"]
    left: Operand
    right: Operand


Operand = Path | Placeholder | Function | Arithmetic

Comparator = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left comparator right`."""

    comparator: Comparator
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    """`operand BETWEEN low AND high`."""

    operand: Operand
    low: Operand
    high: Operand


@dataclass(frozen=True, slots=True)
class In:
    """`operand IN (choices)`."""

    operand: Operand
    choices: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT condition`."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    """`left AND right`."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Or:
    """`left OR right`."""

    left: Condition
    right: Condition


Condition = Comparison | Between | In | Not | And | Or | Function

Section = Literal["SET", "REMOVE", "ADD", "DELETE"]


@dataclass(frozen=True, slots=True)
class Action:
    """One change of an update: what happens to the attribute at a path."""

    section: Section
    path: Path
    operand: Operand | None
    """None for REMOVE."""
