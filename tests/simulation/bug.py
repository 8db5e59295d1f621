"""A bug that can be switched on in the shipped code, and the list of all of them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Bug:
    """What to put in the place of what."""

    case: str
    what: str
    changes: tuple[tuple[Any, str, Any], ...]

    @contextmanager
    def installed(self) -> Iterator[None]:
        originals = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.changes]
        for owner, name, value in self.changes:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in originals:
                setattr(owner, name, value)


BUGS: list[Bug] = []


def bug(case: str, what: str, owner: Any, name: str, **others: Any) -> Callable[[Any], Any]:
    """Put the function below in the place of another; `others` of the same owner beside it."""

    def register(function: Any) -> Any:
        is_property = isinstance(owner.__dict__[name], property)
        value = property(function) if is_property else function
        changes = [(owner, name, value), *((owner, n, value) for n, value in others.items())]
        BUGS.append(Bug(case, what, tuple(changes)))
        return function

    return register
