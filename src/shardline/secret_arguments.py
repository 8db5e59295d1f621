"""Secrets of the command line: overwritten in what `ps` shows."""

import re
from pathlib import Path
from typing import Final

_SECRET: Final = re.compile(
    rb"(?<=://)[^\0]*[@?][^\0]*"  # of an address with a user or options: all of it
    rb"|(?<=\0--token[\0=])[^\0]+"
)
_ARGUMENTS_BEGIN_AT: Final = 45
"""The field of /proc/self/stat, counted from the one behind the name."""


def hide_secrets() -> None:
    """Overwrite passwords and tokens in the command line of this process, as database clients do.

    Python has copied its arguments by now. Only Linux says where they are; elsewhere nothing is
    done.
    """
    try:
        shown = Path("/proc/self/cmdline").read_bytes()
        spans = secret_spans(shown)
        if not spans:
            return
        stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return
    import ctypes

    start = int(stat[_ARGUMENTS_BEGIN_AT])
    if start and ctypes.string_at(start, len(shown)) == shown:
        for begin, end in spans:
            ctypes.memset(start + begin, ord("*"), end - begin)


def secret_spans(command_line: bytes) -> list[tuple[int, int]]:
    """Return where secrets are in the arguments of a command, which end with zero bytes."""
    return [match.span() for match in _SECRET.finditer(command_line)]
