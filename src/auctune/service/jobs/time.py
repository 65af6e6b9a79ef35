"""Moments as people give and read them: in RFC 3339, or so long from now."""

import re
from datetime import UTC, datetime

from auctune.domain import InputError

_EXPECTED = "a time such as 2031-05-04T09:00:00Z, or a span from now such as +90m, +2h or +1d"
_SPAN = re.compile(r"\+(\d{1,9}(?:\.\d{1,6})?)([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def to_rfc3339(time: float) -> str:
    """A moment of unix time for people, to the millisecond: 2031-05-04T09:00:00Z."""
    moment = datetime.fromtimestamp(round(time, 3), UTC)
    return moment.isoformat().replace("+00:00", "Z")


def parse_deadline(text: str, now: float, place: str = "market.deadline") -> float:
    """Unix time of a deadline.

    Args:
        text: as given.
        now: unix time that a span counts from.
        place: named in the error.

    Raises:
        InputError: if it is neither, has no zone of time, or has passed.
    """
    span = _SPAN.fullmatch(text)
    if span is not None:
        return now + float(span[1]) * _SECONDS[span[2]]
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise InputError(place, f"{text!r} says no zone of time", _EXPECTED)
        time = moment.timestamp()
    except (ValueError, OverflowError):
        raise InputError(place, repr(text), _EXPECTED) from None
    if time <= now:
        raise InputError(place, f"{text!r} has passed", "a time to come")
    return time
