"""Which call to the table each write of the rules is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from shardline.core.leasing.instructions import (
    Bump,
    Create,
    Delete,
    Forget,
    Instruction,
    Release,
    Renew,
    Save,
    Take,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.core.leasing.rows import Header
    from shardline.leases.port import LeaseTable


def write_of(
    instruction: Instruction, table: LeaseTable, header: Header | None
) -> Callable[[], Any]:
    """Return the call that carries an instruction out; it is not made yet."""
    match instruction:
        case Create(new, expected) | Take(new, expected):
            return partial(table.swap_row, new, expected)
        case Save(new, expected) | Release(new, expected):
            return partial(table.swap_row, new, expected)
        case Renew(beat, stored):
            return partial(table.swap_heartbeat, beat, stored)
        case Delete(row):
            return partial(table.delete_row, row)
        case Forget(dead):
            return partial(table.delete_heartbeat, dead)
        case Bump(settled) if header is not None:
            return partial(table.bump, header, settled=settled)
        case _:
            raise TypeError(f"not a write: {instruction}")
