"""Terms of a request: money, deadline, and the fields that a kind of zone supports.

A request states the worth of a job as a bid, or as a value that falls with lateness, and may cap
its cost. Zones of all kinds read the same fields: where one is missing, an equivalent one is used.
A timestamp is RFC 3339, or a span from now such as +2h.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from auctune.domain import InputError, Money, parse_money
from auctune.files.schema import hyperparameters_of
from auctune.service.accounts.registry import Principal
from auctune.service.jobs.quotes import NO_ALTERNATIVES, Alternatives
from auctune.service.jobs.request import JobRequest, MarketTerms, Request

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


_AMOUNT = (
    'an amount of money, as text: "12.50"; or a default, which an operator sets: '
    "auctune users add NAME --default-bid 12.50"
)
DEADLINE = (
    "a time, or a span such as +2h; or a default, which an operator sets: "
    "auctune users add NAME --default-deadline +2h"
)
"""Expectation of an error about a missing deadline."""

# What is refused of a field that is always given, and what is expected.
_REFUSED_VALUES = {"model": ("a fine-tuned model", "a base model")}

# Fields that have another default than `None`; and deadlines, of which there are two.
_IS_SET: Mapping[str, Callable[[JobRequest], bool]] = {
    "market.deadline": lambda request: has_deadline(request),
    "market.repair": lambda request: request.market.repair,
    "market.lora.patience": lambda request: hyperparameters_of(request.market.lora)["patience"] > 0,
    "market.lora.warmup_ratio": (
        lambda request: hyperparameters_of(request.market.lora)["warmup_ratio"] > 0
    ),
    "method.dpo": lambda request: request.method is not None and request.method.type == "dpo",
    "method.kto": lambda request: request.method is not None and request.method.type == "kto",
    "model": lambda request: request.start is not None,
    "hyperparameters.n_epochs": lambda request: request.hyperparameters_used.n_epochs != "auto",
    "validation_file": lambda request: request.validation_file is not None,
}


@dataclass(frozen=True, slots=True)
class Terms:
    """Fields of a request that a kind of zone requires, and those that it does not support.

    Attributes:
        required: what is expected of each, by name.
        reason: why they are not supported, as a clause: "trains to a loss".
    """

    required: Mapping[str, str] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()
    reason: str = ""

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Return why a zone of this kind cannot take a job, or None: "needs market.sites"."""
        missing = self._first_missing(request)
        if missing is not None:
            return f"needs {missing}"
        found = self._first_unsupported(request)
        if found is None:
            return None
        refusal = f"does not support {_REFUSED_VALUES.get(found, (found,))[0]}"
        return f"{self.reason}, and {refusal}" if self.reason else refusal

    def check(self, request: JobRequest, zone: str, kind: str) -> None:
        """Raise InputError for the first field of a request that is not supported, or missing."""
        found = self._first_unsupported(request)
        if found is not None:
            clause = f"{self.reason} and does" if self.reason else "does"
            value, other = _REFUSED_VALUES.get(found, ("given", "none"))
            expected = f"{other}: zone {zone} ({kind}) {clause} not support it"
            raise InputError(found, f"is {value}", expected)
        missing = self._first_missing(request)
        if missing is not None:
            raise InputError(missing, "is missing", self.required[missing])

    def _first_missing(self, request: JobRequest) -> str | None:
        return next((name for name in self.required if not _is_set(request, name)), None)

    def _first_unsupported(self, request: JobRequest) -> str | None:
        return next((name for name in self.unsupported if _is_set(request, name)), None)


def _is_set(request: JobRequest, name: str) -> bool:
    if name in _IS_SET:
        return _IS_SET[name](request)
    group, _, attribute = name.rpartition(".")
    if group == "market.lora":
        return attribute in request.market.lora.model_fields_set
    assert group == "market", name
    return getattr(request.market, attribute) is not None


@dataclass(frozen=True, slots=True)
class JobValue:
    """Value of a job as a function of the time at which it is done.

    Attributes:
        amount: value by the deadline, or None if the request names none.
        zero_at: unix time from which on it is worth nothing; linear in between.
    """

    amount: Money | None
    deadline: float
    zero_at: float


def value_of(request: JobRequest, now: float) -> JobValue:
    """Return the value of a job; without `zero_at` it lasts 1.5 times as long as the deadline."""
    deadline, zero_at = _times(request.market, now)
    if zero_at is None:
        zero_at = deadline + (deadline - now) / 2
    return JobValue(_bid_or_value(request.market), deadline, zero_at)


def deadline_of(request: JobRequest, now: float) -> float:
    """Return the unix time of a request's deadline: `deadline`, or that of its value."""
    return _times(request.market, now)[0]


def has_deadline(request: JobRequest) -> bool:
    """Return whether a request has a deadline, be it wrong."""
    value = request.market.value
    return request.market.deadline is not None or (value is not None and value.deadline is not None)


def validate_amounts(request: JobRequest) -> None:
    """Check the amounts of money in a request."""
    _bid_or_value(request.market)
    max_cost(request)


def bid_amount(request: JobRequest) -> Money:
    """Return the most that a request pays for a job in time: its bid or value, up to its cap."""
    amount, cap = _bid_or_value(request.market), max_cost(request)
    if amount is None:
        raise InputError("market.bid", "is missing", _AMOUNT)
    return amount if cap is None else min(amount, cap)


def max_cost(request: Request) -> Money | None:
    """Return the cap of a request on its job's cost, or None if it has none."""
    cap = request.market.max_cost
    return None if cap is None else parse_money(cap, "market.max_cost")


def required_cap(request: JobRequest) -> Money:
    """Return the most that may be charged for a metered job; see `implied_cap`."""
    cap = implied_cap(request)
    if cap is None:
        raise InputError("market.max_cost", "is missing", _AMOUNT)
    return cap


def implied_cap(request: JobRequest) -> Money | None:
    """Return the cap of a request on its job's cost, or else its bid or value, or None."""
    cap = max_cost(request)
    return _bid_or_value(request.market) if cap is None else cap


def missing_terms(terms: MarketTerms) -> list[str]:
    """Return the fields of a request's terms that defaults apply to.

    An amount of any kind is a request's own: a default does not cap a bid, nor raise a cap.
    """
    has_amount = any(one is not None for one in (terms.bid, terms.value, terms.max_cost))
    missing = [] if has_amount else ["bid", "max_cost"]
    if terms.deadline is None and (terms.value is None or terms.value.deadline is None):
        missing.append("deadline")
    if terms.zone is None:
        missing.append("zone")
    return missing


def default_terms_record(request: JobRequest) -> dict[str, Any]:
    """Return the default terms of a request: `value` and `of`, by field of `market`."""
    return {name: asdict(one) for name, one in request.default_terms.items()}


def request_record(
    request: JobRequest,
    who: Principal,
    bid: Money | None,
    deadline: float,
    alternatives: Alternatives = NO_ALTERNATIVES,
) -> dict[str, Any]:
    """Return what is recorded of a request, for its owner and for a decision after a restart."""
    rate = request.hyperparameters_used.learning_rate_multiplier
    chosen_from = {"alternatives": [one.to_record() for one in alternatives]}
    integrations = [one.model_dump(mode="json") for one in request.integrations or ()]
    return {
        "model": request.base,
        "start_from": None if request.start is None else request.model,
        "training_file": request.training_file,
        "validation_file": request.validation_file,
        "learning_rate_multiplier": 1.0 if rate == "auto" else rate,
        "organization_id": who.team or who.user,
        "key": who.key,
        "metadata": request.metadata,
        "suffix": request.suffix,
        "bid": None if bid is None else str(bid),
        "deadline": deadline,
        **(chosen_from if alternatives else {}),
        **({"integrations": integrations} if integrations else {}),
        **({} if request.alias is None else {"alias": request.alias}),
        **({"default_terms": default_terms_record(request)} if request.default_terms else {}),
    }


def _bid_or_value(terms: MarketTerms) -> Money | None:
    if terms.bid is not None and terms.value is not None:
        raise InputError("market.value", "is given with market.bid", "one of the two")
    if terms.value is not None:
        return parse_money(terms.value.amount, "market.value.amount")
    return None if terms.bid is None else parse_money(terms.bid, "market.bid")


def _times(terms: MarketTerms, now: float) -> tuple[float, float | None]:
    """Return the deadline, and when the value is zero."""
    value = terms.value
    if value is not None and value.deadline is not None:
        if terms.deadline is not None:
            found = "is given with market.deadline"
            raise InputError("market.value.deadline", found, "one of the two")
        deadline = parse_deadline(value.deadline, now, "market.value.deadline")
    elif terms.deadline is None:
        raise InputError("market.deadline", "is missing", DEADLINE)
    else:
        deadline = parse_deadline(terms.deadline, now)
    if value is None or value.zero_at is None:
        return deadline, None
    zero_at = parse_deadline(value.zero_at, now, "market.value.zero_at")
    if zero_at < deadline:
        expected = "the deadline, or a time after it"
        raise InputError("market.value.zero_at", "is before the deadline", expected)
    return deadline, zero_at
