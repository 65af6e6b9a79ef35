"""From names and settings, as files and the command line give them, to mechanisms.

| name | mechanism | parameters |
| --- | --- | --- |
| pdftsp | the auction | `PdftspParams` |
| titan | a program a slot | `TitanParams` |
| eft | earliest finish time | none |
| ntm | no task merging | `NtmParams` |
"""

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from auctune.auction import Pdftsp, PdftspParams, Titan, TitanParams, make_eft, make_ntm
from auctune.domain import Admission, Cluster, InputError, Task

P = TypeVar("P")

_RANGES = ("compute_low", "compute_high", "memory_low", "memory_high")
_ONLY_WITH = {
    **dict.fromkeys(("alpha", "beta", "scale"), "paper"),
    **dict.fromkeys(_RANGES, "exponential"),
}


@dataclass(frozen=True, slots=True)
class EftParams:
    """EFT has none."""


@dataclass(frozen=True, slots=True)
class NtmParams:
    """Of NTM.

    Attributes:
        seed: of the draw of vendors.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError("seed", f"{self.seed!r}", "a whole number >= 0")


def build(
    name: str,
    cluster: Cluster,
    settings: Mapping[str, str] | None = None,
    tasks: Sequence[Task] = (),
) -> Admission:
    """A new mechanism over an empty cluster.

    Args:
        name: one of `mechanism_names()`.
        cluster: the supply.
        settings: values of its parameters, as text.
        tasks: all bids of the instance; read for the prices of the paper only, whose alpha and
            beta are maxima over bids that nobody knows in advance.

    Raises:
        InputError: for an unknown name or setting, or a value that is not one.
    """
    entry = _entry(name)
    return entry.build(cluster, entry.parse(settings or {}), tasks)


def check_settings(name: str, settings: Mapping[str, str]) -> None:
    """Refuse what `build` would refuse, before there is a cluster.

    Raises:
        InputError: for an unknown name or setting, or a value that is not one.
    """
    _entry(name).parse(settings)


def mechanism_names() -> tuple[str, ...]:
    """All mechanisms that `build` knows."""
    return tuple(_ENTRIES)


def setting_names(name: str) -> tuple[str, ...]:
    """The settings of a mechanism.

    Raises:
        InputError: for an unknown name.
    """
    return tuple(field.name for field in fields(_entry(name).params))


def parse_params(kind: type[P], settings: Mapping[str, str]) -> P:
    """A parameters' dataclass from text, each value read by its field's type.

    Raises:
        InputError: naming the setting, for an unknown one or a value of the wrong kind.
    """
    hints = get_type_hints(kind)
    for key in settings:
        if key not in hints:
            raise InputError(
                key,
                "is no setting of this mechanism",
                f"one of {', '.join(hints)}" if hints else "no setting",
            )
    return kind(**{key: _parse(key, text, hints[key]) for key, text in settings.items()})


def clairvoyant_params(params: PdftspParams, tasks: Sequence[Task]) -> PdftspParams:
    """`params` with the paper's alpha = scale * max b / M and beta = scale * max b / r filled in.

    Those maxima run over all bids, later ones and the one being priced among them: nobody knows
    them in time, and with them the auction is not truthful. A task without memory says nothing of
    beta.

    Raises:
        InputError: if there are no tasks to take them from.
    """
    if not tasks:
        raise InputError("alpha", "is not set", "alpha and beta, where bids are not known ahead")
    alpha = max(float(task.bid) / task.work for task in tasks)
    beta = max((float(t.bid) / t.memory_gb for t in tasks if t.memory_gb > 0), default=0.0)
    return replace(
        params,
        alpha=params.scale * alpha if params.alpha is None else params.alpha,
        beta=params.scale * beta if params.beta is None else params.beta,
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    params: type[Any]
    parse: Callable[[Mapping[str, str]], Any]
    build: Callable[[Cluster, Any, Sequence[Task]], Admission]


def _entry(name: str) -> _Entry:
    if name not in _ENTRIES:
        raise InputError(
            "mechanism", f"{name!r} is not offered", f"one of {', '.join(mechanism_names())}"
        )
    return _ENTRIES[name]


def _parse_pdftsp(settings: Mapping[str, str]) -> PdftspParams:
    params = parse_params(PdftspParams, settings)
    for key in settings:
        needed = _ONLY_WITH.get(key, params.pricing)
        if needed != params.pricing:
            raise InputError(key, f"says nothing to pricing={params.pricing}", f"pricing={needed}")
    return params


def _build_pdftsp(cluster: Cluster, params: PdftspParams, tasks: Sequence[Task]) -> Admission:
    if params.pricing == "paper" and (params.alpha is None or params.beta is None):
        params = clairvoyant_params(params, tasks)
    return Pdftsp(cluster, params)


def _build_titan(cluster: Cluster, params: TitanParams, _tasks: Sequence[Task]) -> Admission:
    return Titan(cluster, params)


def _build_eft(cluster: Cluster, _params: EftParams, _tasks: Sequence[Task]) -> Admission:
    return make_eft(cluster)


def _build_ntm(cluster: Cluster, params: NtmParams, _tasks: Sequence[Task]) -> Admission:
    return make_ntm(cluster, params.seed)


_ENTRIES: Mapping[str, _Entry] = {
    "pdftsp": _Entry(PdftspParams, _parse_pdftsp, _build_pdftsp),
    "titan": _Entry(TitanParams, partial(parse_params, TitanParams), _build_titan),
    "eft": _Entry(EftParams, partial(parse_params, EftParams), _build_eft),
    "ntm": _Entry(NtmParams, partial(parse_params, NtmParams), _build_ntm),
}


def _parse(key: str, text: str, hint: Any) -> Any:
    if get_origin(hint) is types.UnionType:
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise InputError(key, repr(text), f"one of {', '.join(get_args(hint))}")
        return text
    if hint is int:
        return _parse_whole(key, text)
    assert hint is float, f"no parser for {key}: {hint}"
    return _parse_number(key, text)


def _parse_whole(key: str, text: str) -> int:
    # int() takes underscores, blanks and foreign digits as well; a setting does not.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise InputError(key, repr(text), "a whole number")
    return int(text)


def _parse_number(key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if "_" in text or text != text.strip() or not math.isfinite(number):
        raise InputError(key, repr(text), "a number")
    return number
