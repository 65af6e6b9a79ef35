"""Bids to come, as scenarios of weighted samples: days like those before, corrected by now.

In scenario s the number of bids expected h slots ahead is
 m_h * ((1 - persistence^h) * r_s,h + persistence^h * (1 + e)),
m_h the typical rate times the level of late, or the mean rate of late where no day was seen before;
r_s,h a stretch of how slots of earlier days (on a first day: of late) exceeded their rates, each
scenario another stretch; and e by how much the current slot exceeds its rate. A share
fresh * exp(-h / fading) of them looks like the bids of the last hours, the rest like those of the
typical day around that time, their values scaled as those of late are. Level and scale are ratios
of late to the typical day, drawn towards 1 by how uncertain they are: a normal prior on the
logarithm, and the noise that the dispersion implies.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auctune.auction.book import Floats, Ints
from auctune.auction.dual.columns import TaskColumns
from auctune.auction.pricing.learned.bids import join, place
from auctune.auction.pricing.learned.diary import Late
from auctune.auction.pricing.learned.typical import GOLDEN, TypicalDay, evenly, worth

# Standard deviation of the logarithm of a day's level, and of its values, around a typical day's.
_PRIOR = 0.5
_LEAST_SHARE = 0.1
# Fewer slots of today than these do not show how unsteady it is.
_TOO_SHORT = 12
# A slot that brought n bids, more than any before, is expected to bring so many times n.
_MORE, _MORE_AT_LEAST = 1.5, 1.25
# Turns of the golden ratio so far apart that no two scenarios share them, nor two slots of today:
# with the same samples all day, one slot's error would stay, and tight deadlines cannot avoid it.
_OTHER, _AGAIN = 1000, 37


@dataclass(frozen=True, slots=True)
class Habits:
    """How forecasts are made.

    Attributes:
        recent: slots that count as of late.
        half_life: slots; of the weight with which the past tells today's level.
        fresh: share of the current slot's bids that looks like those of late.
        fading: slots; how fast that share falls.
        scenarios: how many.
        samples: bids that stand for `grid` slots, other ones in each scenario.
        recent_samples: the same, of those of late, where there is a typical day too.
        grid: slots that are sampled together, and learned from together.
    """

    recent: int
    half_life: float
    fresh: float
    fading: float
    scenarios: int
    samples: int
    recent_samples: int
    grid: int = 1

    @property
    def width(self) -> int:
        """Slots to each side that count as the same time of the day."""
        return max(1, self.recent // 3)


@dataclass(frozen=True, slots=True)
class Now:
    """Where the market stands.

    Attributes:
        slot: the current one, from the market's first one on.
        late: bids of the last hours, the current slot's among them.
    """

    slot: int
    late: Late

    @property
    def past(self) -> Floats:
        """Bids of each slot of late that is over, the latest last."""
        return self.late.past

    @property
    def num_seen(self) -> int:
        """Bids of the current slot so far."""
        return self.late.num_seen

    def of_day(self, ahead: Ints, num_day: int) -> Ints:
        """Slots of the day of those so far ahead."""
        slots: Ints = (self.slot + ahead) % num_day
        return slots


class Scenario(NamedTuple):
    """Bids that may come."""

    columns: TaskColumns  # slots counted from the current one
    weights: Floats  # [I] how many such bids there are


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bids to come.

    Attributes:
        scenarios: equally likely.
        total: bids expected of the current slot, those seen included.
    """

    scenarios: tuple[Scenario, ...]
    total: float


def forecast(
    typical: TypicalDay | None, now: Now, num_slots: int, habits: Habits
) -> Forecast | None:
    """What the next `num_slots` slots bring, the current one first; none if nothing is known."""
    if typical is None:
        return _forecast_of_late(now, num_slots, habits)
    ahead = np.arange(num_slots)
    level = _level(typical, now, habits)
    rate = typical.rate[now.of_day(ahead, len(typical.rate))] * level
    usual = rate[0] * _carried_over(typical, now, level)
    total = _total(usual, rate[0], now.num_seen, typical.ratios)
    paths = _paths(rate, total, now, typical.ratios, typical.persistence, habits)
    share = habits.fresh * np.exp(-ahead / habits.fading)
    if now.late.columns.num_tasks == 0:
        share = np.zeros(num_slots)
    scale = _scale(typical, now)
    scenarios = []
    for turn, expected in enumerate(paths):
        parts = [_like_typical(typical, now, (1 - share) * expected, habits, turn, scale)]
        if share.any():
            parts.append(_like_late(now, share * expected, habits, habits.recent_samples, turn))
        columns, weights = zip(*parts, strict=True)
        scenarios.append(Scenario(join(columns), np.concatenate(weights)))
    return Forecast(tuple(scenarios), total)


def _forecast_of_late(now: Now, num_slots: int, habits: Habits) -> Forecast | None:
    """The first day: what came of late goes on coming."""
    past = now.past
    if now.late.columns.num_tasks == 0:
        return None
    if not len(past):
        # Its first slot goes on: more come than have come.
        total = _MORE * now.num_seen
        ratios = np.ones(1)
        paths = _paths(np.full(num_slots, total), total, now, ratios, 0.0, habits)
    else:
        weight = _discount(len(past), habits.half_life)
        mean = float((weight * past).sum() / weight.sum())
        # A first burst after an empty past says that there are bids at all.
        mean = max(mean, now.num_seen / (len(past) + 1), 1e-6)
        total = _total(mean, mean, now.num_seen, past / mean)
        enough = len(past) >= _TOO_SHORT and past.any()
        ratios = past / past.mean() if enough else np.ones(1)
        paths = _paths(np.full(num_slots, mean), total, now, ratios, 0.0, habits)
    scenarios = [
        _like_late(now, expected, habits, habits.samples, turn)
        for turn, expected in enumerate(paths)
    ]
    return Forecast(tuple(scenarios), total)


def _paths(
    rate: Floats, total: float, now: Now, ratios: Floats, persistence: float, habits: Habits
) -> list[Floats]:
    """Bids expected of each slot, those seen not counted, in each scenario."""
    num_past, ahead = len(ratios), np.arange(len(rate))
    kept = persistence**ahead
    excess = total / max(float(rate[0]), 1e-9)
    # Stretches that begin at other slots each time, evenly spaced: every slot of the past is heard.
    offset = (now.slot * GOLDEN) % 1.0
    paths = []
    for turn in range(habits.scenarios):
        start = int((turn + offset) * num_past / habits.scenarios) + now.slot
        stretch = ratios[(start + ahead) % num_past]
        expected: Floats = rate * ((1 - kept) * stretch + kept * excess)
        expected[0] = max(0.0, total - now.num_seen)
        paths.append(expected)
    return paths


def _total(usual: float, rate: float, num_seen: int, ratios: Floats) -> float:
    """Bids expected of the current slot: as usual until it brings more, then as such slots."""
    if num_seen <= usual:
        return float(usual)
    as_many = ratios[ratios * rate >= num_seen]
    expected = float(as_many.mean()) * rate if len(as_many) else _MORE * num_seen
    return max(expected, _MORE_AT_LEAST * num_seen)


def _carried_over(typical: TypicalDay, now: Now, level: float) -> float:
    """What the slot before the current one says of it, as a ratio to its rate."""
    if not len(now.past):
        return 1.0
    before = typical.rate[(now.slot - 1) % len(typical.rate)]
    excess = float(now.past[-1]) / max(float(before) * level, 1e-6) - 1
    return max(_LEAST_SHARE, 1 + typical.persistence * excess)


def _level(typical: TypicalDay, now: Now, habits: Habits) -> float:
    """Bids of late over those of a typical day."""
    past = now.past
    weight = _discount(len(past), habits.half_life)
    before = now.of_day(np.arange(-len(past), 0), len(typical.rate))
    usual = float((weight * typical.rate[before]).sum())
    if usual <= 0:
        return 1.0
    rho = typical.persistence
    variance = float(typical.ratios.var()) * (1 + rho) / (1 - rho)
    noise = variance * float((weight**2).sum() / weight.sum() ** 2)
    # One more on both sides: that none came yet is not that none will come.
    return _drawn_to_one((float((weight * past).sum()) + 1) / (usual + 1), noise)


def _scale(typical: TypicalDay, now: Now) -> float:
    """Values of late over those of a typical day."""
    late, usual = worth(now.late.columns), typical.worth
    noise = late.error + usual.error
    if not math.isfinite(noise):
        return 1.0
    return _drawn_to_one(math.exp(late.mean - usual.mean), noise)


def _drawn_to_one(ratio: float, noise: float) -> float:
    """A ratio whose logarithm was seen with a variance of `noise`."""
    return math.exp(_PRIOR**2 / (_PRIOR**2 + noise) * math.log(ratio))


def _discount(num_slots: int, half_life: float) -> Floats:
    weight: Floats = 0.5 ** (np.arange(num_slots)[::-1] / half_life)
    return weight


def _like_late(now: Now, expected: Floats, habits: Habits, size: int, turn: int) -> Scenario:
    columns = now.late.columns
    first, of_moment = _moments(expected, habits.grid)
    turns = np.arange(len(first)) + _OTHER * turn
    rows = [evenly(columns.num_tasks, size, t) for t in turns.tolist()]
    return Scenario(*place(columns, np.concatenate(rows), first, of_moment, len(expected)))


def _like_typical(
    typical: TypicalDay, now: Now, expected: Floats, habits: Habits, turn: int, scale: float
) -> Scenario:
    first, of_moment = _moments(expected, habits.grid)
    slots = now.of_day(first, len(typical.rate))
    turn = _OTHER * turn + _AGAIN * now.slot
    rows = [typical.rows(slot, habits.width, habits.samples, turn) for slot in slots.tolist()]
    columns, weights = place(typical.columns, np.concatenate(rows), first, of_moment, len(expected))
    return Scenario(columns._replace(bid=columns.bid * scale), weights)


def _moments(expected: Floats, grid: int) -> tuple[Ints, Floats]:
    """Every `grid`-th slot, and the bids that are expected from it to the next one."""
    first = np.arange(0, len(expected), grid)
    return first, np.add.reduceat(expected, first)
