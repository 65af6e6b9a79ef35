"""A form for a job, read into the body of a request; the API says what is wrong with it."""

import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_HYPERPARAMETERS = ("n_epochs", "batch_size", "learning_rate_multiplier")
_LORA = ("rank", "alpha", "dropout", "learning_rate", "max_length")


def job_body(values: Mapping[str, str], models: Mapping[str, str]) -> dict[str, Any]:
    """The body of a request for a quote, or of a bid.

    Args:
        values: fields that have something in them.
        models: of the zones, by their names.
    """
    zone = values.get("zone")
    model = models.get(zone) if zone else None
    market: dict[str, Any] = {
        name: values[name] for name in ("bid", "deadline", "zone", "max_cost") if name in values
    }
    numbers = ("share", "risk", "target_loss")
    market |= {name: _number(values[name]) for name in numbers if name in values}
    if "value" in values:
        worth = {"amount": values["value"], "zero_at": values.get("zero_at")}
        market["value"] = {name: one for name, one in worth.items() if one is not None}
    if "sites" in values:
        market["sites"] = _sites(values["sites"])
        # What is not chosen above is one of them.
        files = [file for file in market["sites"].values() if file]
        if files and values.get("training_file") not in files:
            values = {**values, "training_file": files[0]}
    if "repair" in values:
        market["repair"] = True
    lora: dict[str, Any] = {name: _number(values[name]) for name in _LORA if name in values}
    if "truncate" in values:
        lora["truncate"] = True
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
    return int(text) if re.fullmatch(r"-?[0-9]{1,15}", text) else float(text)


def _sites(text: str) -> dict[str, str]:
    """Sites and their files, a line each; what is no such line the API refuses by name."""
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        site, _, file = line.partition("=")
        found[site.strip()] = file.strip()
    return found
