"""Positions as people type them: 10m, 2026-11-15T12:00Z, latest."""

import re
from datetime import datetime, timedelta

from shardline.errors import InvalidPosition

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])", re.IGNORECASE)
_FORMS = "write 10m, 2h, 2026-11-15T12:00:00Z, trim_horizon or latest"


def parse_since(text: str, now: datetime) -> str | datetime:
    """Return "latest", "trim_horizon" or an aware time. A time without a zone is local time."""
    word = text.strip().lower()
    if word in {"latest", "trim_horizon"}:
        return word
    if match := _AGO.fullmatch(word):
        return now - timedelta(**{_UNITS[match[2]]: float(match[1])})
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidPosition(f"{text!r} is not a time or position in a stream: {_FORMS}") from None
    time = time if time.tzinfo else time.astimezone()
    if time > now:
        raise InvalidPosition(f"{text!r} is in the future: {_FORMS}")
    return time
