"""What is to be trained, as the service's API takes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auctune.client.terms import Terms, market_part
from auctune.domain.errors import InputError

_NAME_KEY = "name"


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _texts(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


# Keys of a market file's [[bids]], and how their texts are read. The service checks the values.
SETTINGS: Mapping[str, Callable[[str], Any]] = {
    "epochs": int,
    "batch_size": int,
    "rank": int,
    "alpha": float,
    "dropout": float,
    "target_modules": _texts,
    "learning_rate": float,
    "weight_decay": float,
    "schedule": str,
    "warmup_steps": int,
    "max_length": int,
    "truncate": _flag,
    "max_grad_norm": float,
    "patience": int,
    "share": float,
    "seed": int,
}
_EXPECTED: Mapping[Callable[[str], Any], str] = {int: "a whole number", _flag: "true or false"}
_HYPERPARAMETERS = {"epochs": "n_epochs", "batch_size": "batch_size"}
_OWN = ("share", "seed", *_HYPERPARAMETERS)


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be trained.

    Attributes:
        data, validation: ids of files; no validation: none.
        settings: of training, by a market file's keys; the others are the service's choice.
        repair: whether a vendor may mend the data.
        name: by which its owner knows it; none: it has none.
        sites: ids of files by the site where they are; none: the data may go anywhere.
    """

    data: str
    validation: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    repair: bool = False
    name: str | None = None
    sites: Mapping[str, str] = field(default_factory=dict)


def request(work: Work, terms: Terms) -> dict[str, Any]:
    """The body of a request for a job, or for a quote."""
    settings = work.settings
    used = {theirs: settings[own] for own, theirs in _HYPERPARAMETERS.items() if own in settings}
    market: dict[str, Any] = {
        **market_part(terms),
        "sites": dict(work.sites) or None,
        "share": settings.get("share"),
        "repair": work.repair or None,
        "lora": {name: value for name, value in settings.items() if name not in _OWN} or None,
    }
    body: dict[str, Any] = {
        "model": terms.model,
        "training_file": work.data,
        "validation_file": work.validation,
        "seed": settings.get("seed"),
        **_named(work.name),
        "hyperparameters": used or None,
        "market": _given(market),
    }
    return _given(body)


def acceptance(
    quote: str,
    line: int | None = None,
    bid: str | None = None,
    name: str | None = None,
    max_cost: str | None = None,
) -> dict[str, Any]:
    """The body of a request that accepts a line of a quote, or its estimate; none: as quoted."""
    market = _given({"quote": quote, "line": line, "bid": bid, "max_cost": max_cost})
    return _given({**_named(name), "market": market})


def read_settings(texts: Mapping[str, str], option: str = "--set") -> dict[str, Any]:
    """Settings of training from texts.

    Raises:
        InputError: for a key that there is not, or a text that is not of its kind.
    """
    read: dict[str, Any] = {}
    for key, text in texts.items():
        kind = SETTINGS.get(key)
        if kind is None:
            known = ", ".join(SETTINGS)
            raise InputError(f"{option} {key}", "is no setting of training", f"one of {known}")
        try:
            read[key] = kind(text)
        except ValueError:
            expected = _EXPECTED.get(kind, "a number")
            raise InputError(f"{option} {key}", repr(text), expected) from None
    return read


def _named(name: str | None) -> dict[str, Any]:
    return {"suffix": name, "metadata": None if name is None else {_NAME_KEY: name}}


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}
