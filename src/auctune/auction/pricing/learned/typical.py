"""A typical day: how many bids each slot brings, which ones, and how unsteadily.

Bursts come at another time on another day, only the daily curve returns, and one day alone cannot
tell them apart: its rate is taken to be flat. Of several days the first harmonics are fitted, and
trusted as far as the days agree on them (the shrinkage of James and Stein).

Slots that a day did not have, as in a market that ends before it, say nothing.

Shapes: D slots of a day, I bids seen, R slots known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auctune.auction.book import Floats, Ints
from auctune.auction.dual.columns import TaskColumns
from auctune.auction.pricing.learned.bids import choose, join
from auctune.auction.pricing.learned.diary import Seen

# Even steps of the golden ratio are spread as evenly as can be, whatever their number.
GOLDEN = 0.6180339887498949
_MOST_PERSISTENCE = 0.9
_HARMONICS = 2
# No hour of the day is taken to bring less than this share of the mean.
_LEAST_RATE = 0.1


class Worth(NamedTuple):
    """What a sample is worth to bids, by its logarithm."""

    mean: float
    error: float  # variance of the mean; infinite for fewer than two bids
    median_bid: float  # money, of bids above 0; 0 without any


@dataclass(frozen=True)
class TypicalDay:
    """What earlier days taught.

    Attributes:
        columns: of the bids kept, by slot of the day.
        slot: [I] of the day, rising.
        rate: [D] bids a slot.
        ratios: [R] counts of single slots over their rates, slot by slot and day by day.
        persistence: how much of a slot's excess over its rate is left in the next one, 0 to 0.9.
        worth: what its bids are worth.
    """

    columns: TaskColumns
    slot: Ints
    rate: Floats
    ratios: Floats
    persistence: float
    worth: Worth

    def rows(self, slot: int, width: int, size: int, turn: int) -> Ints:
        """`size` bids from around a slot, others at each turn; from all day if there are fewer."""
        first, last = np.searchsorted(self.slot, (slot - width, slot + width + 1)).tolist()
        if last - first < size:
            first, last = 0, len(self.slot)
        chosen: Ints = first + evenly(last - first, size, slot + turn)
        return chosen


def typical_day(days: Sequence[Seen]) -> TypicalDay | None:
    """What days of one length have in common; none if they brought no bid.

    Args:
        days: what was seen of each.
    """
    days = [day for day in days if len(day.slot)]
    if not days:
        return None
    slots = np.concatenate([day.slot for day in days])
    order = np.argsort(slots, kind="stable")
    columns = choose(join([day.columns for day in days]), order)
    rate = _daily_curve(days)
    ratios = [day.counts[: day.num_known] / rate[: day.num_known] for day in days]
    return TypicalDay(
        columns, slots[order], rate, np.concatenate(ratios), _persistence(ratios), worth(columns)
    )


def worth(columns: TaskColumns) -> Worth:
    """What these bids are worth."""
    bids = columns.bid[columns.bid > 0]
    if len(bids) < 2:
        return Worth(0.0, math.inf, float(bids[0]) if len(bids) else 0.0)
    logs = np.log(bids / columns.work[columns.bid > 0])
    return Worth(float(logs.mean()), float(logs.var() / len(logs)), float(np.median(bids)))


def evenly(count: int, size: int, turn: int) -> Ints:
    """Indices of `size` of `count` things, evenly spaced, others at each turn."""
    offset = (turn * GOLDEN) % 1.0
    picked = np.floor((np.arange(size) + offset) * (count / size)).astype(np.int64)
    indices: Ints = np.minimum(picked, count - 1)
    return indices


def _daily_curve(days: Sequence[Seen]) -> Floats:
    """[D] bids a slot: the mean, and two harmonics as far as days agree on them."""
    num_slots = len(days[0].counts)
    num_known = sum(day.num_known for day in days)
    mean = sum(int(day.counts.sum()) for day in days) / num_known
    is_whole = num_known == len(days) * num_slots
    if len(days) == 1 or not is_whole or num_slots <= 2 * _HARMONICS:
        return np.full(num_slots, mean)
    counts = np.array([day.counts for day in days], dtype=np.float64)
    turn = np.outer(np.arange(num_slots), np.arange(1, _HARMONICS + 1)) * (2 * np.pi / num_slots)
    waves = np.hstack((np.cos(turn), np.sin(turn)))
    by_day = counts @ waves @ waves.T * (2 / num_slots)
    fitted = by_day.mean(axis=0)
    by_chance = by_day.var(axis=0, ddof=1).mean() / len(days)
    variance = fitted.var()
    trust = max(0.0, 1 - float(by_chance / variance)) if variance > 0 else 0.0
    curve: Floats = np.maximum(mean + trust * fitted, _LEAST_RATE * mean)
    return curve


def _persistence(ratios: Sequence[Floats]) -> float:
    """Correlation of one slot and the next, over days."""
    before = np.concatenate([day[:-1] for day in ratios])
    after = np.concatenate([day[1:] for day in ratios])
    if len(before) < 2:
        return 0.0
    spread = float(before.std() * after.std())
    if spread == 0.0:
        return 0.0
    covariance = float(((before - before.mean()) * (after - after.mean())).mean())
    return min(max(covariance / spread, 0.0), _MOST_PERSISTENCE)
