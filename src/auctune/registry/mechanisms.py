"""Auctions by name, auctune's and those of installed packages, built from settings as text.

| name | mechanism | parameters |
| --- | --- | --- |
| pdftsp | the auction | `PdftspParams` |
| titan | a program a slot | `TitanParams` |
| eft | earliest finish time | none |
| ntm | no task merging | `NtmParams` |

Installed packages offer more of them, by entry points of the group `auctune.mechanisms`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from auctune.auction import Pdftsp, PdftspParams, Titan, TitanParams, make_eft, make_ntm
from auctune.auction.params import SETTINGS_OF_PRICING
from auctune.domain import Admission, Cluster, EnergyForecast, InputError, Task
from auctune.domain.checks import check_count
from auctune.files.parameter_text import parse_params
from auctune.registry.entry import KnownBids, MechanismEntry
from auctune.registry.third_party import check_mechanism, find_entry, third_party_names

# A scale has a default, so that only the text shows whether it was asked for.
_ONLY_WITH: Mapping[str, str] = {**SETTINGS_OF_PRICING, "scale": "paper"}

# Prices that read the bids of earlier days.
_LEARNING: tuple[str, ...] = ("learned",)


@dataclass(frozen=True, slots=True)
class EftParams:
    """EFT has none."""


@dataclass(frozen=True, slots=True)
class NtmParams:
    """Parameters of NTM.

    Attributes:
        seed: of the draw of vendors.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.seed, "seed", 0)


def build(
    name: str,
    cluster: Cluster,
    settings: Mapping[str, str] | None = None,
    tasks: Sequence[Task] = (),
    history: Sequence[Sequence[Task]] = (),
    energy: EnergyForecast | None = None,
) -> Admission:
    """A new mechanism over an empty cluster.

    Args:
        name: one of `mechanism_names()`.
        cluster: the supply.
        settings: values of its parameters, as text.
        tasks: all bids of the instance; read for the prices of the paper only, whose alpha and
            beta are maxima over bids that nobody knows in advance, and by third parties.
        history: bids of earlier days, the earliest day first.
        energy: what slots to come will cost, for a market without an end; the cluster is then its
            first window.

    Raises:
        InputError: for an unknown name or setting, or a value that is not one; or if a third
            party's mechanism is broken.
    """
    params = _parsed(name, settings or {})
    made = _entry(name).build(cluster, params, KnownBids(tasks, history, energy))
    check_mechanism(name, made)
    return made


def settled_settings(
    name: str, settings: Mapping[str, str], tasks: Sequence[Task]
) -> dict[str, str]:
    """Return the settings with which `build` makes the same mechanism without the bids.

    Those of a third party's mechanism that reads bids are returned as they are.

    Args:
        name, settings: as of `build`.
        tasks: all bids of the instance.

    Raises:
        InputError: as of `build`.
    """
    params = _parsed(name, settings)
    if not isinstance(params, PdftspParams) or params.pricing != "paper":
        return dict(settings)
    params = clairvoyant_params(params, tasks)
    return {**settings, "alpha": repr(params.alpha), "beta": repr(params.beta)}


def check_settings(name: str, settings: Mapping[str, str]) -> None:
    """Refuse what `build` would refuse, before there is a cluster.

    Raises:
        InputError: for an unknown name or setting, or a value that is not one.
    """
    _parsed(name, settings)


def learns(name: str, settings: Mapping[str, str]) -> bool:
    """Return whether a mechanism with these settings reads the bids of earlier days.

    Raises:
        InputError: for an unknown name or setting, or a value that is not one.
    """
    return _entry(name).learns(_parsed(name, settings))


def mechanism_names() -> tuple[str, ...]:
    """All mechanisms that `build` knows: auctune's own, then those of installed packages."""
    return (*_ENTRIES, *(name for name in third_party_names() if name not in _ENTRIES))


def setting_names(name: str) -> tuple[str, ...]:
    """The settings of a mechanism.

    Raises:
        InputError: for an unknown name.
    """
    return tuple(field.name for field in fields(_entry(name).params))


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


def _entry(name: str) -> MechanismEntry:
    entry = find_entry(name, _ENTRIES) or _ENTRIES.get(name)
    if entry is None:
        raise InputError(
            "mechanism", f"{name!r} is not offered", f"one of {', '.join(mechanism_names())}"
        )
    return entry


def _parsed(name: str, settings: Mapping[str, str]) -> Any:
    kind = _entry(name).params
    if kind is PdftspParams:
        settings = _with_pricing(settings)
    params = parse_params(kind, settings)
    if isinstance(params, PdftspParams):
        _check_pdftsp(params, settings)
    return params


def _with_pricing(settings: Mapping[str, str]) -> Mapping[str, str]:
    """What belongs to some prices alone asks for them."""
    asked = dict.fromkeys(_ONLY_WITH[key] for key in settings if key in _ONLY_WITH)
    return {"pricing": next(iter(asked)), **settings} if asked else settings


def _check_pdftsp(params: PdftspParams, settings: Mapping[str, str]) -> None:
    for key in settings:
        needed = _ONLY_WITH.get(key, params.pricing)
        if needed != params.pricing:
            raise InputError(key, f"says nothing to pricing={params.pricing}", f"pricing={needed}")


def _build_pdftsp(cluster: Cluster, params: PdftspParams, known: KnownBids) -> Admission:
    if params.pricing == "paper" and (params.alpha is None or params.beta is None):
        params = clairvoyant_params(params, known.tasks)
    return Pdftsp(cluster, params, energy=known.energy, history=known.history)


def _build_titan(cluster: Cluster, params: TitanParams, known: KnownBids) -> Admission:
    if known.energy is not None:
        raise InputError("mechanism", "titan needs a market with an end", "pdftsp, eft or ntm")
    return Titan(cluster, params)


def _build_eft(cluster: Cluster, _params: EftParams, known: KnownBids) -> Admission:
    return make_eft(cluster, energy=known.energy)


def _build_ntm(cluster: Cluster, params: NtmParams, known: KnownBids) -> Admission:
    return make_ntm(cluster, params.seed, energy=known.energy)


def _learned_prices(params: PdftspParams) -> bool:
    return params.pricing in _LEARNING


def _never(_params: Any) -> bool:
    return False


_ENTRIES: Mapping[str, MechanismEntry] = {
    "pdftsp": MechanismEntry(PdftspParams, _build_pdftsp, _learned_prices),
    "titan": MechanismEntry(TitanParams, _build_titan, _never),
    "eft": MechanismEntry(EftParams, _build_eft, _never),
    "ntm": MechanismEntry(NtmParams, _build_ntm, _never),
}
