"""Accepting what was quoted: a request names a quote, and what else it says must be as quoted."""

from typing import Any

from pydantic import BaseModel

from auctune.domain import InputError
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance

# Names that an owner gives to a job are not part of what is quoted.
_NAMES = ("suffix", "metadata")


def own_names(accepted: Acceptance) -> dict[str, Any]:
    """Names that a job is given at last, in place of those of its quote."""
    return {name: value for name in _NAMES if (value := getattr(accepted, name)) is not None}


def check_same(accepted: Acceptance, quote: Quote, *free: str) -> None:
    """That what a request says again is what was quoted.

    Args:
        accepted: the request.
        quote: that it names.
        free: terms that need not be those of the quote.

    Raises:
        InputError: naming the first that is otherwise.
    """
    quoted, terms = quote.request, accepted.market
    whole = _given(accepted, "hyperparameters", "method", "seed", "market", "integrations", *_NAMES)
    _compare("", whole, quoted)
    _compare("", {"seed": accepted.seed}, quote.training)
    _compare("hyperparameters.", _given(accepted.hyperparameters_used), quoted.hyperparameters_used)
    _compare("market.", _given(terms, "lora", "zone", "quote", "line", *free), quoted.market)
    _compare("market.lora.", _given(terms.lora), quoted.market.lora)
    if terms.zone not in (None, quote.zone):
        raise InputError("market.zone", f"{terms.zone!r}", f"{quote.zone!r}, as quoted, or none")


def _compare(place: str, given: dict[str, Any], quoted: object) -> None:
    for name, value in given.items():
        expected = getattr(quoted, name)
        if value is not None and value != expected:
            shown = "none" if expected is None else f"{expected!r}, as quoted, or none"
            raise InputError(f"{place}{name}", f"{value!r}", shown)


def _given(model: BaseModel, *but: str) -> dict[str, Any]:
    """What a request says by itself."""
    return {name: getattr(model, name) for name in model.model_fields_set if name not in but}
