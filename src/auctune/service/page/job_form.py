"""A form for a job, read into the body of a request; the API says what is wrong with it."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from auctune.service.jobs.request import Terms

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_HYPERPARAMETERS = ("n_epochs", "batch_size", "learning_rate_multiplier")
_LORA = ("rank", "alpha", "dropout", "learning_rate", "max_length")
_KNOWN = {"bid", "deadline", "zone", "repair", "lora", "quote", "line", "what_if", "share", "risk"}

OTHER_TERMS = tuple(name for name in Terms.model_fields if name not in _KNOWN)
"""Terms that zones of some kinds ask for; typed as they stand in a request."""


def job_body(values: Mapping[str, str], models: Mapping[str, str]) -> dict[str, Any]:
    """The body of a request for a quote, or of a bid.

    Args:
        values: fields that have something in them.
        models: of the zones, by their names.
    """
    zone = values.get("zone")
    model = models.get(zone) if zone else None
    market: dict[str, Any] = {
        name: values[name] for name in ("bid", "deadline", "zone") if name in values
    }
    market |= {name: _number(values[name]) for name in ("share", "risk") if name in values}
    market |= {name: _value(values[name]) for name in OTHER_TERMS if name in values}
    if "repair" in values:
        market["repair"] = True
    lora = {name: _number(values[name]) for name in _LORA if name in values}
    if lora:
        market["lora"] = lora
    body: dict[str, Any] = {
        "model": model or values.get("model") or next(iter(models.values()), ""),
        "training_file": values.get("training_file", ""),
        "market": market,
    }
    hyperparameters = {name: _number(values[name]) for name in _HYPERPARAMETERS if name in values}
    if hyperparameters:
        body["hyperparameters"] = hyperparameters
    if "seed" in values:
        body["seed"] = _number(values["seed"])
    if "name" in values:
        body["metadata"] = {"name": values["name"]}
    for name in ("validation_file", "suffix"):
        if name in values:
            body[name] = values[name]
    return body


def _number(text: str) -> int | float | str:
    """A number where it is one; else what was typed, for the API to refuse by name."""
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else float(text)


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return text
