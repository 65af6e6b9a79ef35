"""Several mechanisms on one market, their figures side by side.

A mechanism with settings is written `NAME:KEY=VALUE:KEY=VALUE`, and several of them with commas
between: `pdftsp,pdftsp:pricing=paper:scale=0.1,eft`. That text is also the name under which its
figures are shown, so each may be there once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auctune.domain import Admission, InputError, Task
from auctune.files.parameter_text import parse_label
from auctune.registry import mechanisms
from auctune.sim.bound import WelfareBound
from auctune.sim.engine import SimulationResult, Watch, simulate, warm_up
from auctune.sim.instance import Instance
from auctune.sim.metrics import SimulationReport, measure
from auctune.sim.outages import Outage


@dataclass(frozen=True, slots=True)
class Entry:
    """A mechanism to run.

    Attributes:
        label: as it was written.
        mechanism: its name.
        settings: of the mechanism, as text.
    """

    label: str
    mechanism: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Played:
    """What an entry made of the market."""

    entry: Entry
    result: SimulationResult
    report: SimulationReport


def parse_entries(text: str) -> list[Entry]:
    """Return the mechanisms of a list such as `pdftsp:pricing=paper:scale=0.1,eft`.

    Raises:
        InputError: for an empty list or name, a setting that is not KEY=VALUE or comes twice, or
            a mechanism that is there twice with the same settings.
    """
    entries = [
        Entry(label, *parse_label(label, "compare", "mechanism")) for label in text.split(",")
    ]
    for index, entry in enumerate(entries):
        if entry.label in [other.label for other in entries[:index]]:
            raise InputError("compare", f"{entry.label!r} is given twice", "each once")
    return entries


def build(entry: Entry, market: Instance, history: Sequence[Sequence[Task]] = ()) -> Admission:
    """Return the entry's mechanism over an empty cluster.

    Args:
        entry: the mechanism.
        market: its cluster; its bids are for those that are clairvoyant.
        history: bids of earlier days, for those that learn from them.

    Raises:
        InputError: as `mechanisms.build`.
    """
    name, settings = entry.mechanism, entry.settings
    known = history if mechanisms.learns(name, settings) else ()
    return mechanisms.build(name, market.cluster, settings, market.tasks, known)


def play(
    entry: Entry,
    market: Instance,
    bound: WelfareBound,
    *,
    history: Sequence[Sequence[Task]] = (),
    watch: Watch | None = None,
    outages: Sequence[Outage] = (),
) -> Played:
    """Run the market from its first bid to its last, once the kernels are compiled."""
    warm_up(market, lambda: build(entry, market))
    made = build(entry, market, history)
    result = simulate(market, made, watch=watch, outages=outages)
    return Played(entry, result, measure(result, bound))


def comparison_json(played: Sequence[Played], bound: WelfareBound) -> dict[str, Any]:
    """Return all figures, keys in that order."""
    return {
        "bound": {
            "kind": bound.kind,
            "value": bound.value,
            **({} if bound.value is None else {"exact": bound.exact}),
        },
        "mechanisms": [
            {
                "name": one.entry.label,
                "mechanism": one.entry.mechanism,
                "settings": dict(one.entry.settings),
                **one.report.to_json(),
            }
            for one in played
        ],
    }
