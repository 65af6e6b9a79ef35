"""Allocators by what the papers call them, and auctune's own; what they make of bundles.

Exploration is in equal batches, as in LARA's paper; its 8,000 of each thread are 335 of 630 seconds
of Table 1, 0.53 of the time ("the paper's H"). LARA, LRF and ETF explore for a tenth of the time,
auctune's documented default. "LARA, best" is the best of several explorations as known afterwards:
what choosing it by hand could come to; beside it the same with equal time for every thread.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

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
ENTRIES: Mapping[str, Allocator] = {
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
    setting: str, bundles: Sequence[RecordedBundle], others: Mapping[str, Allocator]
) -> pl.DataFrame:
    """A row a bundle and allocator: threads done, switches, and the most that could be done.

    `explored` is the share of the time where it was chosen afterwards.

    Args:
        setting: as tables name it.
        bundles: each with the seed of its place.
        others: allocators beside `ENTRIES`.
    """
    tried = {BEST: explorations(), BEST_TIME: explorations(FEW, "time")}
    shown = {**ENTRIES, **others}
    flat = [*shown.values(), *(one for made in tried.values() for one in made.values())]
    comparison = compare_allocators(bundles, flat)
    places: dict[str, tuple[int, float | None]] = {
        name: (place, None) for place, name in enumerate(shown)
    }
    begin = len(shown)
    for name, made in tried.items():
        mean = comparison.done[:, begin : begin + len(made)].mean(axis=0)
        best = int(mean.argmax())
        places[name] = begin + best, list(made)[best]
        begin += len(made)
    frames = [
        pl.DataFrame(
            {
                "setting": setting,
                "seed": range(len(bundles)),
                "entry": name,
                "explored": pl.Series([explored] * len(bundles), dtype=pl.Float64),
                "done": comparison.done[:, place],
                "switches": comparison.switches[:, place],
                "optimum": comparison.optimum,
            }
        )
        for name, (place, explored) in places.items()
    ]
    return pl.concat(frames)
