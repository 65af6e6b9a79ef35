"""Files of results: a market record, the slots of one job, the choices of a selection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import polars as pl

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.selection import Selection
from auctune.sim.spot.trace import FixedPrice, MarketRecipe, in_units, read_trace
from auctune.sim.spot.trials import Trials
from auctune.spot import SpotJob, SpotMarket, SpotOutcome

# The record behind a market, as fine as its files: what a real run replays.
#
# An instance that is gone within a slot is then taken away within it, and not left out of the slot
# from its beginning on, as a market of slots has it.


@dataclass(frozen=True, slots=True, eq=False)
class SpotRecord:
    """A market from given seconds on, in units of the on-demand price.

    Attributes:
        seconds: [k] rising, the first one 0; each entry holds until the next.
        price: [k].
        available: [k].
    """

    seconds: Floats
    price: Floats
    available: Ints


def read_record(recipe: MarketRecipe) -> SpotRecord:
    """Return the record of a recipe; the price of a line of the counts is that of its beginning.

    Raises:
        InputError: as of `auctune.sim.spot.trace.read_market`.
    """
    counts = read_trace(recipe.available.path)
    available = counts.recorded_available()
    seconds = counts.t_s - recipe.available.start_s
    first = int(np.searchsorted(seconds, 0.0, side="right")) - 1
    if first < 0:
        raise InputError(counts.place, f"begins at {counts.t_s[0]:g} s", "a record of the start")
    seconds = np.maximum(seconds[first:], 0.0)
    available = available[first:]
    source = recipe.price or recipe.available
    if isinstance(source, FixedPrice):
        price = np.full(len(seconds), source.price)
    else:
        prices = counts if source.path == recipe.available.path else read_trace(source.path)
        asked = source.start_s + seconds
        seconds, available = seconds[asked < prices.end_s], available[asked < prices.end_s]
        asked = asked[asked < prices.end_s]
        at = np.searchsorted(prices.t_s, asked, side="right") - 1
        if not len(at) or at[0] < 0:
            expected = f"prices from {source.start_s:g} s on"
            raise InputError(prices.place, f"begins at {prices.t_s[0]:g} s", expected)
        price = prices.recorded_price()[at]
    return SpotRecord(seconds, in_units(price, recipe.on_demand_price), available)


@dataclass(frozen=True, slots=True)
class SlotLine:
    """One slot of a job.

    Attributes:
        slot: since the job began.
        price: of a spot GPU, in units of the on-demand price.
        available: spot GPUs.
        on_demand, spot: GPUs held.
        progress, expected: work done by the slot's end, and that an even pace would have done.
        cost: of the slot.
    """

    slot: int
    price: float
    available: int
    on_demand: int
    spot: int
    progress: float
    expected: float
    cost: float


def slot_lines(job: SpotJob, market: SpotMarket, outcome: SpotOutcome) -> list[SlotLine]:
    """Return the slots of a job up to that in which its work was done.

    Args:
        job: that was run.
        market: slot 0 is the job's first.
        outcome: of the run.
    """
    lines = []
    for slot, (held, progress) in enumerate(
        zip(outcome.allocations, outcome.progress, strict=True)
    ):
        price = float(market.price[slot])
        lines.append(
            SlotLine(
                slot=slot,
                price=price,
                available=int(market.available[slot]),
                on_demand=held.on_demand,
                spot=held.spot,
                progress=min(progress, job.workload),
                expected=job.workload * (slot + 1) / job.deadline,
                cost=held.on_demand * market.on_demand_price + held.spot * price,
            )
        )
    return lines


def write_slot_lines(
    starts: Sequence[tuple[int, int]], diaries: Sequence[Sequence[SlotLine]], file: BinaryIO
) -> None:
    """Write a row for each slot of each job, as parquet.

    Args:
        starts: (market, slot) in which each job began.
        diaries: of each job.
        file: where to.
    """
    columns = {
        "job": pl.Int32, "market": pl.Int32, "start": pl.Int32, "slot": pl.Int32,
        "price": pl.Float64, "available": pl.Int64, "on_demand": pl.Int64, "spot": pl.Int64,
        "progress": pl.Float64, "expected": pl.Float64, "cost": pl.Float64,
    }  # fmt: skip
    rows = [
        (number, *start, *(getattr(line, name) for name in list(columns)[3:]))
        for number, (start, lines) in enumerate(zip(starts, diaries, strict=True))
        for line in lines
    ]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(file)


def write_selection(
    selection: Selection,
    utility: Floats,
    names: Sequence[str],
    trials: Trials,
    file: BinaryIO,
) -> None:
    """Write a row for each job and policy.

    `weight` is that before the job, `ran` whether the policy was drawn or the heaviest, `regret`
    and `bound` those after the job, the same in all its rows.

    Args:
        selection: what was done.
        utility: [k, m] of each job under each policy, in money.
        names: [m] of the policies.
        trials: the jobs.
        file: where to.
    """
    num, width = utility.shape
    starts = trials.starts
    pl.DataFrame(
        {
            "job": np.repeat(np.arange(num, dtype=np.int32), width),
            "market": np.repeat(np.array([s.market for s in starts], dtype=np.int32), width),
            "start": np.repeat(np.array([s.slot for s in starts], dtype=np.int32), width),
            "policy": list(names) * num,
            "utility": utility.ravel(),
            "weight": selection.weights[:-1].ravel(),
            "ran": (selection.chosen[:, None] == np.arange(width)).ravel(),
            "regret": np.repeat(selection.regret, width),
            "bound": pl.Series(np.repeat(selection.bound, width)).fill_nan(None),
        }
    ).write_parquet(file)
