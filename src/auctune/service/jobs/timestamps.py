"""Timestamps of requests and responses: RFC 3339, or a span from now such as +2h."""

import re
from datetime import UTC, datetime

from auctune.domain import InputError

_EXPECTED = "a time such as 2031-05-04T09:00:00Z, or a span from now such as +90m, +2h or +1d"
_SPAN = re.compile(r"([+-])([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhd])")
# `fromisoformat` also accepts other forms of ISO 8601, and any separator of date and time.
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
)
_DAYS = 3653
"""Ten years: a limit well before the year 9999, where `datetime` ends."""
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def to_rfc3339(time: float) -> str:
    """Return unix time as text, to the millisecond: 2031-05-04T09:00:00Z."""
    moment = datetime.fromtimestamp(round(time, 3), UTC)
    return moment.isoformat().replace("+00:00", "Z")


def parse_deadline(text: str, now: float, place: str = "market.deadline") -> float:
    """Return the unix time of a deadline: a time with a time zone, or a positive span from `now`.

    Raises:
        InputError: if it is neither, has passed, or is more than ten years ahead.
    """
    span = _SPAN.fullmatch(text)
    if span is not None and span[1] == "+":
        time = now + float(span[2]) * _SECONDS[span[3]]
    else:
        moment = _read_moment(text)
        if moment is None:
            raise InputError(place, repr(text), _EXPECTED)
        if moment.tzinfo is None:
            raise InputError(place, f"{text!r} has no time zone", _EXPECTED)
        time = moment.timestamp()
    if time <= now:
        raise InputError(place, f"{text!r} has passed", "a time in the future")
    if time > now + _DAYS * _SECONDS["d"]:
        raise InputError(place, f"{text!r} is too far ahead", "a time within ten years")
    return time


def parse_moment(text: str, now: float, place: str) -> float:
    """Return the unix time of any time, past or future, for a command of an operator.

    It is a time, local without a time zone, or a span from `now` such as -7d.
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
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment.timestamp()
    except (ValueError, OverflowError):
        return None
    return moment
