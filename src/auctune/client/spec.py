"""A job's data and training (`JobSpec`), its price and deadline (`JobTerms`), and their requests.

A job's options are declared here only: the command line derives its options from the fields and
the help texts in their metadata.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from auctune.domain.errors import InputError
from auctune.domain.training import PARAMETERS, Parameter

_NAME_KEY = "name"
_VALUE = re.compile(r"([^@]+)(?:@((?:(?!\.\.)[^@])*)(?:\.\.([^@]+))?)?")
_VALUE_FORM = "AMOUNT, AMOUNT@DEADLINE, or AMOUNT@DEADLINE..WORTHLESS, such as 40@+2h..+3h"


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _parser(parameter: Parameter) -> Callable[[str], Any]:
    if parameter.choices:
        return str
    kinds: Mapping[Any, Callable[[str], Any]] = {int: int, float: float, bool: _bool}
    return kinds.get(parameter.kind, _list)


# Parsers of training settings by name. The service checks values.
TRAINING_SETTINGS: Mapping[str, Callable[[str], Any]] = {
    **{name: _parser(parameter) for name, parameter in PARAMETERS.items()},
    "truncate": _bool,
    "share": float,
}
_EXPECTED: Mapping[Callable[[str], Any], str] = {int: "a whole number", _bool: "true or false"}
_HYPERPARAMETERS = {"epochs": "n_epochs", "batch_size": "batch_size"}
_NOT_LORA = ("share", "seed", "method", "beta", *_HYPERPARAMETERS)


def _option(default: Any, description: str, **cli: Any) -> Any:
    """Declare a field with its help text, and its name on the command line if not `--field`."""
    metadata = {"help": description, **cli}
    if default == {}:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class JobTerms:
    """Price, deadline and risk of a job; texts are parsed by the service.

    Attributes:
        value: `AMOUNT`, `AMOUNT@DEADLINE` or `AMOUNT@DEADLINE..WORTHLESS`: the value decays
            between the two times.
        what_if: request the decision without buying.

    Raises:
        InputError: if the form of `value` is wrong.
    """

    bid: str | None = _option(
        None, "Maximum price you pay, in zones with binding prices.", metavar="AMOUNT"
    )
    deadline: str | None = _option(
        None, "Finish by this time, or within this span, such as +2h.", metavar="TIME"
    )
    value: str | None = _option(
        None,
        "Value by finish time: the full amount until the first time, 0 from the second on.",
        metavar="AMOUNT[@TIME[..TIME]]",
    )
    max_cost: str | None = _option(
        None, "Maximum cost, in zones that meter usage.", metavar="AMOUNT"
    )
    target_loss: float | None = _option(None, "Train until this loss, on a shared pool.")
    risk: float | None = _option(
        None, "Acceptable probability of missing the deadline. Default: 0.1."
    )
    zone: str | None = _option(
        None, "The zone. Default: the cheapest that can run the job.", metavar="ZONE"
    )
    what_if: bool = _option(False, "Show the decision without submitting the job.")

    def __post_init__(self) -> None:
        if self.value is not None:
            parse_value(self.value)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Data and training of a job.

    Attributes:
        training_file, validation_file: ids of uploads; `Client.prepare` also accepts paths and
            uploads them. `training_file` may be `None` if `sites` has a file.
        model: the base model, or a fine-tuned one to start from; `Client.prepare` fills in that of
            the zone for `None`, and that of a finished job for its id.
        settings: training settings by the keys of `TRAINING_SETTINGS`; the service chooses the
            others.
        repair: whether a vendor may repair the data.
        sites: file by edge site; empty if the data may leave their site.
        name: the owner's name for the job, or `None`.
    """

    training_file: str | None = _option(
        None, "Training data: a file, or the id of an upload.", argument=True
    )
    sites: Mapping[str, str] = _option(
        {}, "Training data that stay at an edge site; repeatable.",
        flag="--site", metavar="NAME=FILE",
    )  # fmt: skip
    name: str | None = _option(None, "Name of the job. Default: the file's name.", metavar="NAME")
    validation_file: str | None = _option(
        None, "Validation data: a file, or the id of an upload.", flag="--validation",
        metavar="FILE",
    )  # fmt: skip
    model: str | None = _option(
        None,
        "The base model, or a finished job whose adapter to start from. Default: that of the zone.",
        metavar="MODEL",
    )
    settings: Mapping[str, Any] = _option(
        {}, "Set a training parameter; repeatable.", flag="--set", metavar="KEY=VALUE"
    )
    repair: bool = _option(False, "Allow a vendor to repair the data.")


@dataclass(frozen=True, slots=True)
class DecayingValue:
    """Value of a job by its finish time.

    Attributes:
        amount: value until the deadline.
        deadline: a time or a span such as +2h, or `None` for the deadline of the terms.
        zero_at: a time or span from which the value is 0, or `None` for the service's default.
    """

    amount: str
    deadline: str | None = None
    zero_at: str | None = None


def parse_value(text: str, option: str = "--value") -> DecayingValue:
    """Parse `AMOUNT[@DEADLINE[..WORTHLESS]]`.

    Raises:
        InputError: if the form is wrong; the service checks amounts and times.
    """
    match = _VALUE.fullmatch(text)
    if match is None:
        raise InputError(option, repr(text), _VALUE_FORM)
    amount, deadline, zero_at = match.groups()
    if deadline == "" and zero_at is None:
        raise InputError(option, repr(text), _VALUE_FORM)
    return DecayingValue(amount, deadline or None, zero_at)


def parse_training_settings(texts: Mapping[str, str], option: str = "--set") -> dict[str, Any]:
    """Parse training settings.

    Raises:
        InputError: for an unknown key, or a text of the wrong type.
    """
    parsed: dict[str, Any] = {}
    for key, text in texts.items():
        parse = TRAINING_SETTINGS.get(key)
        if parse is None:
            keys = ", ".join(TRAINING_SETTINGS)
            raise InputError(f"{option} {key}", "is not a training setting", f"one of {keys}")
        try:
            parsed[key] = parse(text)
        except ValueError:
            expected = _EXPECTED.get(parse, "a number")
            raise InputError(f"{option} {key}", repr(text), expected) from None
    method = parsed.get("method", "supervised")
    if "beta" in parsed and method == "supervised":
        found = f"is set for method {method!r}"
        expected = f"{option} method=dpo or {option} method=kto beside it"
        raise InputError(f"{option} beta", found, expected)
    return parsed


def job_request(spec: JobSpec, terms: JobTerms) -> dict[str, Any]:
    """Return the body of a request for a job or a quote."""
    settings = spec.settings
    hyperparameters = {
        theirs: settings[ours] for ours, theirs in _HYPERPARAMETERS.items() if ours in settings
    }
    method = None
    if "method" in settings or "beta" in settings:
        name = settings.get("method", "supervised")
        if "beta" in settings:
            hyperparameters["beta"] = settings["beta"]
        method = {"type": name, name: {"hyperparameters": hyperparameters}}
    lora = {name: value for name, value in settings.items() if name not in _NOT_LORA}
    value = None if terms.value is None else parse_value(terms.value)
    market = {
        "zone": terms.zone,
        "bid": terms.bid,
        "deadline": terms.deadline,
        "value": None if value is None else _drop_none(asdict(value)),
        "max_cost": terms.max_cost,
        "target_loss": terms.target_loss,
        "risk": terms.risk,
        "what_if": terms.what_if or None,
        "sites": dict(spec.sites) or None,
        "share": settings.get("share"),
        "repair": spec.repair or None,
        "lora": lora or None,
    }
    body = {
        "model": spec.model,
        "training_file": spec.training_file,
        "validation_file": spec.validation_file,
        "seed": settings.get("seed"),
        **_name_fields(spec.name),
        "hyperparameters": hyperparameters if hyperparameters and method is None else None,
        "method": method,
        "market": _drop_none(market),
    }
    return _drop_none(body)


def acceptance_request(
    quote: str,
    line: int | None = None,
    bid: str | None = None,
    name: str | None = None,
    max_cost: str | None = None,
) -> dict[str, Any]:
    """Return the body of a request that accepts a quote; what is `None` stays as quoted."""
    market = _drop_none({"quote": quote, "line": line, "bid": bid, "max_cost": max_cost})
    return _drop_none({**_name_fields(name), "market": market})


def _name_fields(name: str | None) -> dict[str, Any]:
    return {"suffix": name, "metadata": None if name is None else {_NAME_KEY: name}}


def _drop_none(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}
