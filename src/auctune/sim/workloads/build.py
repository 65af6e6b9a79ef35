"""A workload from settings, as the command line gives them: texts by key.

| keys | of |
| --- | --- |
| rate, slots, slot_seconds, deadlines, num_vendors, ... | `SyntheticParams` |
| arrivals, start_day, scaling, fit_days, days, energy_start_day, sample_tokens | `Sources` |
| nodes | `a100:25,a40:25`: devices, and how many nodes of each |
| device.NAME, power_kw.NAME | file of a device of one's own, and its power |
| energy | file of electricity prices |
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.files.electricity import DAY_SECONDS, read_prices
from auctune.files.parameter_text import parse_params
from auctune.sim.energy import DayAhead, Electricity
from auctune.sim.instance import Instance
from auctune.sim.traces import JobLog
from auctune.sim.workloads.arrivals import (
    PHILLY_2017,
    Arrivals,
    BurstyArrivals,
    LogArrivals,
    PoissonArrivals,
    Scaling,
)
from auctune.sim.workloads.bursty_fit import fit
from auctune.sim.workloads.device import Device, read_device
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance

Kind = Literal["auto", "poisson", "bursty", "log"]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a workload's arrivals, prices and devices come from.

    Attributes:
        arrivals: how bids arrive; "auto": "log" with a job log, else "poisson". "bursty" is fitted
            to the job log, or, without one, to Philly's.
        start_day: of the log: where its window starts.
        scaling: of the log: where more bids than its window has jobs come from.
        fit_days: of the log: how much of it "bursty" is fitted to; None: to its end.
        days: length of the horizon, in place of `slots`.
        energy_start_day: where the window of prices starts.
        sample_tokens: tokens of a sample on average, for devices that were profiled.
    """

    arrivals: Kind = "auto"
    start_day: float = 0.0
    scaling: Scaling = "superpose"
    fit_days: float | None = None
    days: float | None = None
    energy_start_day: float = 0.0
    sample_tokens: float = 512.0

    def __post_init__(self) -> None:
        for name in ("start_day", "energy_start_day"):
            check_finite(getattr(self, name), name, "a number of days >= 0")
        for name in ("days", "fit_days"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name, "a number of days > 0")
        check_positive(self.sample_tokens, "sample_tokens", "tokens of a sample > 0")


_TEXTS = ("nodes", "energy")
_BY_DEVICE = ("device", "power_kw")
_SCALARS = tuple(f.name for f in fields(SyntheticParams) if f.name not in ("nodes", "devices"))
_SOURCES = tuple(f.name for f in fields(Sources))
KEYS = (*_SCALARS, *_SOURCES, *_TEXTS, *(f"{key}.NAME" for key in _BY_DEVICE))


def build_workload(settings: Mapping[str, str], log: JobLog | None = None) -> Instance:
    """Return the market that settings describe.

    Args:
        settings: texts by key; all have defaults.
        log: of which jobs' times are taken.

    Raises:
        InputError: naming the key, or the file and the place in it.
    """
    _check_keys(settings)
    sources = parse_params(Sources, {key: settings[key] for key in _SOURCES if key in settings})
    params = parse_params(
        SyntheticParams, {key: settings[key] for key in _SCALARS if key in settings}
    )
    params = replace(
        params,
        devices={**params.devices, **_devices(settings, sources)},
        slots=_slots(settings, sources, params),
    )
    if "nodes" in settings:
        params = replace(params, nodes=_nodes(settings["nodes"]))
    arrivals = _arrivals(settings, sources, params, log)
    return make_instance(params, arrivals, _electricity(settings, sources))


def is_key(place: str) -> bool:
    """Return whether an error's place is a setting's key, or lies within one."""
    head = place.split(".")[0].split("[")[0]
    return head in (*_SCALARS, *_SOURCES, *_TEXTS, *_BY_DEVICE)


def _check_keys(settings: Mapping[str, str]) -> None:
    for key in settings:
        head, dot, name = key.partition(".")
        known = bool(name) and head in _BY_DEVICE if dot else key in KEYS
        if not known:
            raise InputError(key, "is no setting of a workload", f"one of {', '.join(KEYS)}")
    for key in settings:
        head, _, name = key.partition(".")
        if head == "power_kw" and f"device.{name}" not in settings:
            raise InputError(key, "is of no device", f"device.{name} as well")


def _devices(settings: Mapping[str, str], sources: Sources) -> dict[str, Device]:
    devices = {}
    for key, value in settings.items():
        head, _, name = key.partition(".")
        if head != "device":
            continue
        power = settings.get(f"power_kw.{name}")
        kilowatts = None if power is None else _number(power, f"power_kw.{name}", "kW >= 0")
        try:
            devices[name] = read_device(Path(value), kilowatts, sources.sample_tokens)
        except InputError as error:
            if error.place == "power_kw":
                raise InputError(f"power_kw.{name}", error.found, error.expected) from None
            raise
    return devices


def _slots(settings: Mapping[str, str], sources: Sources, params: SyntheticParams) -> int:
    if sources.days is None:
        return params.slots
    if "slots" in settings:
        raise InputError("days", "is given with slots", "one of the two")
    slots = sources.days * DAY_SECONDS / params.slot_seconds
    if abs(slots - round(slots)) > 1e-6 or round(slots) < 1:
        found = f"{sources.days:g} days are {slots:g} slots"
        raise InputError("days", found, "a whole number of slots >= 1")
    return round(slots)


def _nodes(text: str) -> dict[str, int]:
    nodes: dict[str, int] = {}
    for part in text.split(","):
        name, colon, count = part.partition(":")
        if not (name and colon and count.isascii() and count.isdigit() and len(count) < 9):
            raise InputError("nodes", repr(text), "DEVICE:COUNT, with commas between several")
        if name in nodes:
            raise InputError("nodes", f"{name!r} is there twice", "each device once")
        nodes[name] = int(count)
    return nodes


def _arrivals(
    settings: Mapping[str, str], sources: Sources, params: SyntheticParams, log: JobLog | None
) -> Arrivals:
    kind = sources.arrivals
    if kind == "auto":
        kind = "poisson" if log is None else "log"
    rate = params.rate if "rate" in settings else None
    if kind == "poisson" and log is not None:
        raise InputError("arrivals", "'poisson' with a job log", "log or bursty")
    for key in ("start_day", "fit_days"):
        if key in settings and (log is None or (key == "fit_days" and kind != "bursty")):
            raise InputError(key, "says nothing here", "a job log, for fit_days arrivals=bursty")
    if "scaling" in settings and (kind != "log" or rate is None):
        raise InputError("scaling", "says nothing here", "arrivals of a job log, and a rate")
    if kind == "poisson":
        return PoissonArrivals(params.rate)
    if kind == "log":
        if log is None:
            raise InputError("arrivals", "'log' without a job log", "poisson or bursty")
        return LogArrivals(log, sources.start_day, rate, sources.scaling)
    if log is None:
        return BurstyArrivals(PHILLY_2017, params.rate)
    days = log.num_days - sources.start_day if sources.fit_days is None else sources.fit_days
    return BurstyArrivals(fit(log.window(sources.start_day, days)), rate)


def _electricity(settings: Mapping[str, str], sources: Sources) -> Electricity | None:
    if "energy" not in settings:
        if "energy_start_day" in settings:
            raise InputError("energy_start_day", "says nothing here", "a file of prices in energy")
        return None
    if "price_per_mwh" in settings:
        raise InputError("price_per_mwh", "is given with energy", "one of the two")
    return DayAhead(read_prices(Path(settings["energy"])), sources.energy_start_day)


def _number(text: str, key: str, expected: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(key, repr(text), expected) from None
