"""One job slot by slot: what there was, what was held, done and paid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import polars as pl

from auctune.spot import SpotJob, SpotMarket, SpotOutcome


@dataclass(frozen=True, slots=True)
class DiaryLine:
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


def diary(job: SpotJob, market: SpotMarket, outcome: SpotOutcome) -> list[DiaryLine]:
    """The slots of a job up to that in which its work was done.

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
            DiaryLine(
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


def write_diaries(
    starts: Sequence[tuple[int, int]], diaries: Sequence[Sequence[DiaryLine]], file: BinaryIO
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
