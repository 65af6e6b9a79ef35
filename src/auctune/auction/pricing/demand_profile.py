"""Demand profile: what earlier days have in common, and when and which bids they brought.

Bursts come at another time on another day, only the daily curve returns, and one day alone cannot
tell them apart: its rate is taken to be flat. Of several days the first harmonics are fitted, and
trusted as far as the days agree on them (the shrinkage of James and Stein). Slots that a day did
not have, as in a market that ends before it, are left out.

Shapes: D slots of a day, I bids seen, R slots known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from auctune.auction.dual.columns import TaskColumns
from auctune.auction.pricing.demand_history import DayRecord, join, select_rows
from auctune.auction.pricing.learned_params import LearnedParams
from auctune.numerics.arrays import FIT, Floats, Ints

# Even steps of the golden ratio are spread as evenly as can be, whatever their number.
GOLDEN = 0.6180339887498949


class ValueStatistics(NamedTuple):
    """Statistics of bids' values: of the logarithm of money per sample."""

    mean: float
    error: float  # variance of the mean; infinite for fewer than two bids
    median_bid: float  # money, of bids above 0; 0 without any


@dataclass(frozen=True)
class DemandProfile:
    """What earlier days say of a day.

    Attributes:
        columns: of the bids kept, by slot of the day.
        slot: [I] of the day, rising.
        rate: [D] bids a slot.
        ratios: [R] counts of single slots over their rates, slot by slot and day by day.
        persistence: how much of a slot's excess over its rate is left in the next one, 0 to 0.9.
        values: statistics of its bids' values.
        is_known: whether the rates are counts of a day that is known to come.
    """

    columns: TaskColumns
    slot: Ints
    rate: Floats
    ratios: Floats
    persistence: float
    values: ValueStatistics
    is_known: bool = False

    def rows(self, slots: Ints, width: int, size: int, offsets: Ints) -> Ints:
        """[..., G, size] bids from around each slot [G], others at each offset [..., 1]; from all
        day if there are fewer."""
        first = np.searchsorted(self.slot, slots - width)
        last = np.searchsorted(self.slot, slots + width + 1)
        is_few = (last - first < size) & (not self.is_known)
        first, last = np.where(is_few, 0, first), np.where(is_few, len(self.slot), last)
        chosen: Ints = first[:, None] + kronecker_sample(last - first, size, slots + offsets)
        return chosen


def fit_profile(
    days: Sequence[DayRecord], params: LearnedParams | None = None
) -> DemandProfile | None:
    """Return what days of one length have in common; None if they brought no bid.

    Args:
        days: what was seen of each; those without bids count too.
        params: constants.
    """
    params = params or LearnedParams()
    if not any(len(day.slot) for day in days):
        return None
    slots = np.concatenate([day.slot for day in days])
    order = np.argsort(slots, kind="stable")
    columns = select_rows(join([day.columns for day in days]), order)
    rate = _daily_curve(days, params)
    ratios = [day.counts[: day.num_known] / rate[: day.num_known] for day in days]
    return DemandProfile(
        columns,
        slots[order],
        rate,
        np.concatenate(ratios),
        _persistence(ratios, params.max_persistence),
        value_statistics(columns),
    )


def known_profile(day: DayRecord) -> DemandProfile | None:
    """Return the profile of a day that is known to come; None if it brings no bid.

    Its counts are the rates, without noise, and neither level nor values are corrected.
    """
    profile = fit_profile([day])
    if profile is None:
        return None
    return replace(
        profile,
        rate=day.counts.astype(np.float64),
        ratios=np.ones(len(day.counts)),
        persistence=0.0,
        values=profile.values._replace(error=math.inf),
        is_known=True,
    )


def value_statistics(columns: TaskColumns) -> ValueStatistics:
    """Return statistics of the values of these bids."""
    bids = columns.bid[columns.bid > 0]
    if len(bids) < 2:
        return ValueStatistics(0.0, math.inf, float(bids[0]) if len(bids) else 0.0)
    logs = np.log(bids / columns.work[columns.bid > 0])
    return ValueStatistics(
        float(logs.mean()), float(logs.var() / len(logs)), float(np.median(bids))
    )


def kronecker_sample(counts: Ints, size: int, offsets: Ints) -> Ints:
    """[..., G, size] indices of `size` of counts [G] of things, evenly spaced, others at each
    offset [..., G]."""
    phase = (offsets * GOLDEN) % 1.0
    picked = np.floor((np.arange(size) + phase[..., None]) * (counts / size)[:, None])
    indices: Ints = np.minimum(picked.astype(np.int64), counts[:, None] - 1)
    return indices


def _daily_curve(days: Sequence[DayRecord], params: LearnedParams) -> Floats:
    """[D] bids a slot: the mean, and some harmonics as far as days agree on them."""
    num_slots = len(days[0].counts)
    num_known = sum(day.num_known for day in days)
    mean = sum(int(day.counts.sum()) for day in days) / num_known
    is_whole = num_known == len(days) * num_slots
    if len(days) == 1 or not is_whole or num_slots <= 2 * params.harmonics:
        return np.full(num_slots, mean)
    counts = np.array([day.counts for day in days], dtype=np.float64)
    angle = np.outer(np.arange(num_slots), np.arange(1, params.harmonics + 1)) * (
        2 * np.pi / num_slots
    )
    waves = np.hstack((np.cos(angle), np.sin(angle)))
    by_day = counts @ waves @ waves.T * (2 / num_slots)
    fitted = by_day.mean(axis=0)
    by_chance = by_day.var(axis=0, ddof=1).mean() / len(days)
    variance = fitted.var()
    trust = max(0.0, 1 - float(by_chance / variance)) if variance > 0 else 0.0
    curve: Floats = np.maximum(mean + trust * fitted, params.least_rate * mean)
    return curve


def _persistence(ratios: Sequence[Floats], most: float) -> float:
    """Correlation of one slot and the next, over days."""
    before = np.concatenate([day[:-1] for day in ratios])
    after = np.concatenate([day[1:] for day in ratios])
    if len(before) < 2:
        return 0.0
    spread = float(before.std() * after.std())
    if spread < FIT:  # as many bids in each slot, but for rounding
        return 0.0
    covariance = float(((before - before.mean()) * (after - after.mean())).mean())
    return min(max(covariance / spread, 0.0), most)
