"""Allocators by what the paper calls them, and auctune's own.

LARA explores for a tenth of the time, auctune's documented default; the paper's 8,000 batches of
each thread are 335 of 630 seconds, 0.53 of it. "LARA, best" is the best of several explorations as
known afterwards: what choosing it by hand could come to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import MIXED, PURE, make_bundles, make_families
from auctune.timeshare import (
    EARLIEST_FIRST,
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    Allocator,
    Exploration,
    HybridEdf,
    Mixture,
    OptimisticFilter,
    Planner,
    ShortestFirst,
    Thompson,
    Ucb,
    Uniform,
    Wls,
    headway,
    lara,
)
from timeshare_harness.options import Options

PAPERS_SHARE = 0.53
EXPLORATIONS = (0.02, 0.05, 0.1, 0.2, 0.4, PAPERS_SHARE)
BEST = "LARA, best"
OWN = "headway"
RIVALS: Mapping[str, Allocator] = {
    "UA": Uniform(),
    "STF": ShortestFirst(),
    "LRF": Planner(rule=LEAST_RESOURCES_FIRST),
    "ETF": Planner(rule=EASIEST_FIRST),
    "LARA": lara(),
    OWN: headway(Mixture()),
}
OTHERS: Mapping[str, Allocator] = {
    "LARA, mixture": Planner(Mixture()),
    "LARA, UCB": Planner(balancing=Ucb()),
    "LARA, Thompson": Planner(balancing=Thompson()),
    f"{OWN}, WLS": Planner(Wls(), OptimisticFilter(), HybridEdf()),
    f"{OWN}, one by one": Planner(Mixture(), OptimisticFilter(near=2.0), EARLIEST_FIRST),
}


def explorations(shares: Sequence[float] = EXPLORATIONS) -> Mapping[float, Allocator]:
    """LARA with each length of exploration."""
    return {share: lara(Exploration(share=share)) for share in shares}


@dataclass(frozen=True, slots=True)
class Family:
    """A bundle of a table, and those that differ from it in the length of a unit of time.

    Attributes:
        chosen: by the rule.
        all: that have the same optimum, short units first.
    """

    chosen: RecordedBundle
    all: Sequence[RecordedBundle]


def families(options: Options) -> list[Family]:
    """pure, mixed-1 and mixed-2; two of each family in quick runs.

    Raises:
        InputError: if the curves of a bundle are not there.
    """
    made = []
    for table in (PURE, MIXED):
        curves = options.curves_of(table.name)
        pairs = zip(make_bundles(table, curves), make_families(table, curves), strict=True)
        made += [Family(one, family[:2] if options.quick else family) for one, family in pairs]
    return made
