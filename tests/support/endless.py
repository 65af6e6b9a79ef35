"""Markets whose window rolls on over many short days, with and without bids of days before."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from auctune.auction import Pdftsp, PdftspParams, make_eft, make_ntm
from auctune.domain import Admission
from auctune.sim.instance import Instance
from support.markets import random_market
from support.mechanisms import LEARNED, params_by_name
from support.windows import first_window, known_costs

# Six slots a day: typical days are learned, and forgotten, within a small market.
_SLOT_SECONDS = 86_400 / 6

MakeEndless = Callable[[Instance, int], Admission]


def days_of_six_slots(seed: int, *, days: int = 6, num_tasks: int = 144) -> Instance:
    """A market of many days, every one about as busy."""
    market = random_market(np.random.default_rng(seed), slots=6 * days, num_tasks=num_tasks)
    cluster = replace(market.cluster, slot_seconds=_SLOT_SECONDS)
    return Instance(cluster, market.tasks)


def _auction(params: PdftspParams, *, history: bool = False) -> MakeEndless:
    def make(market: Instance, seed: int) -> Pdftsp:
        # One type of the market's own may be missing in another: its bids are of these types.
        before = [market.tasks[seed::7]] if history else []
        energy = known_costs(market.cluster)
        return Pdftsp(first_window(market.cluster), params, energy=energy, history=before)

    return make


_ALL = params_by_name()
ENDLESS: Mapping[str, MakeEndless] = {
    "learned": _auction(LEARNED[0]),
    "learned, with history": _auction(LEARNED[0], history=True),
    "learned, checked": _auction(LEARNED[1], history=True),
    **{
        name: _auction(_ALL[name])
        for name in (
            "critical-masked-max-revealed-range",
            "critical-checked-sum-revealed-range",
            "critical-masked-max-set-range",
            "critical-checked-max-paper",
            "paper-masked-sum-paper",
        )
    },
    "eft": lambda market, _seed: make_eft(
        first_window(market.cluster), energy=known_costs(market.cluster)
    ),
    "ntm": lambda market, seed: make_ntm(
        first_window(market.cluster), seed, energy=known_costs(market.cluster)
    ),
}
