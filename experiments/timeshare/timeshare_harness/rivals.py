"""Allocators by what the papers call them, and auctune's own; what they make of bundles.

Exploration is in equal batches, as in LARA's paper; its 8,000 of each thread are 335 of 630 seconds
of Table 1, 0.53 of the time ("the paper's H"). LARA, LRF and ETF explore for a tenth of the time,
auctune's documented default. "LARA, best" is the best of several explorations as known afterwards:
what choosing it by hand could come to; beside it the same with equal time for every thread.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from auctune.numerics.estimates import Estimate, mean_of, ratio_of
from auctune.sim.timeshare.comparison import compare_allocators
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.timeshare import (
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    Allocator,
    Exploration,
    Laira,
    Mixture,
    Planner,
    Rollout,
    RoundRobin,
    ShortestFirst,
    SuccessiveHalving,
    Thompson,
    Ucb,
    Uniform,
    lara,
)

PAPERS_SHARE = 0.53
EXPLORATIONS = (0.02, 0.05, 0.1, 0.2, 0.4, PAPERS_SHARE)
FEW = (0.02, 0.1, PAPERS_SHARE)
BEST, BEST_TIME = "LARA, best", "LARA, equal time, best"
OWN = "rollout"
SWITCHING = ("LARA", "LaiRA", OWN)
RIVALS: Mapping[str, Allocator] = {
    "UA": Uniform(),
    "STF": ShortestFirst(),
    "LRF": Planner(rule=LEAST_RESOURCES_FIRST),
    "ETF": Planner(rule=EASIEST_FIRST),
    "LARA": lara(),
    "LARA, the paper's H": lara(Exploration(share=PAPERS_SHARE)),
    "LaiRA": Laira(),
    OWN: Rollout(),
}
OTHERS: Mapping[str, Allocator] = {
    "LARA, mixture": Planner(Mixture()),
    "LARA, UCB": Planner(balancing=Ucb()),
    "LARA, Thompson": Planner(balancing=Thompson()),
    "STA": Laira(look_ahead=False),
    "round robin": RoundRobin(),
    "successive halving": SuccessiveHalving(),
    f"{OWN}, mixture": Rollout(Mixture()),
}

Unit = Literal["batches", "time"]


def explorations(
    shares: Sequence[float] = EXPLORATIONS, unit: Unit = "batches"
) -> Mapping[float, Allocator]:
    """LARA with each length of exploration."""
    return {share: lara(Exploration(share=share, unit=unit)) for share in shares}


def measured(
    bundles: Sequence[RecordedBundle], others: Mapping[str, Allocator]
) -> list[dict[str, object]]:
    """A row an allocator, of means over bundles with their intervals.

    Beside what it does is by how much auctune's own does more, bundle by bundle.

    Args:
        bundles: two at least.
        others: allocators beside the rivals.
    """
    tried = {BEST: explorations(), BEST_TIME: explorations(FEW, "time")}
    shown = {**RIVALS, **others}
    flat = [*shown.values(), *(one for made in tried.values() for one in made.values())]
    comparison = compare_allocators(bundles, flat)
    done, switches = comparison.done.T, comparison.switches.T
    places: dict[str, tuple[int, float | None]] = {
        name: (place, None) for place, name in enumerate(shown)
    }
    begin = len(shown)
    for name, made in tried.items():
        best = begin + int(done[begin : begin + len(made)].mean(axis=1).argmax())
        places[name] = best, list(made)[best - begin]
        begin += len(made)
    own = done[list(shown).index(OWN)]
    optimum = comparison.optimum
    rows: list[dict[str, object]] = []
    for name, (place, explored) in places.items():
        ratio = ratio_of(done[place], optimum)
        assert ratio is not None
        rows.append(
            {
                "allocator": name,
                "explored": explored,
                "bundles": len(bundles),
                "switches": float(switches[place].mean()),
                "optimum": float(optimum.mean()),
                **_named("done", mean_of(done[place])),
                **_named("ahead", mean_of(own - done[place])),
                **_named("ratio", ratio),
            }
        )
    return rows


def _named(name: str, estimate: Estimate) -> dict[str, object]:
    return {name: estimate.value, f"{name}_half": estimate.half_width}
