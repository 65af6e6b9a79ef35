"""Moments as people give and read them: in RFC 3339, or so long from now."""

import re
from datetime import UTC, datetime

from auctune.domain import InputError

_EXPECTED = "a time such as 2031-05-04T09:00:00Z, or a span from now such as +90m, +2h or +1d"
_SPAN = re.compile(r"([+-])(\d{1,9}(?:\.\d{1,6})?)([smhd])")
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
    if span is not None and span[1] == "+":
        return now + float(span[2]) * _SECONDS[span[3]]
    moment = _read_moment(text)
    if moment is None:
        raise InputError(place, repr(text), _EXPECTED)
    if moment.tzinfo is None:
        raise InputError(place, f"{text!r} says no zone of time", _EXPECTED)
    if moment.timestamp() <= now:
        raise InputError(place, f"{text!r} has passed", "a time to come")
    return moment.timestamp()


def parse_moment(text: str, now: float, place: str) -> float:
    """Unix time of any moment that somebody on this machine names; local time without a zone.

    Args:
        text: as given.
        now: unix time that a span such as -7d counts from.
        place: named in the error.

    Raises:
        InputError: if it is none.
    """
    span = _SPAN.fullmatch(text)
    if span is not None:
        sign = 1 if span[1] == "+" else -1
        return now + sign * float(span[2]) * _SECONDS[span[3]]
    moment = _read_moment(text)
    if moment is None:
        raise InputError(
            place, repr(text), "a time such as 2031-05-04T09:00, or a span such as -7d or -12h"
        )
    return moment.timestamp()


def _read_moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        moment.timestamp()
    except (ValueError, OverflowError):
        return None
    return moment
