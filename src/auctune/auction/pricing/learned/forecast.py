"""Bids to come, as scenarios of weighted samples: days like those before, corrected by today.

In scenario s the number of bids expected h slots ahead is
 m_h * ((1 - persistence^h) * r_s,h + persistence^h * (1 + e)),
m_h the typical rate times today's level, or today's mean rate where no day was seen before, r_s,h a
stretch of how slots of earlier days (on a first day: of today) exceeded their rates, each scenario
another stretch, and e by how much the current slot exceeds its rate. A share
fresh * exp(-h / fading) of them looks like the bids of the last hours, the rest like those of the
typical day around that time, their values scaled as today's are. Level and scale are ratios of
today to the typical day, drawn towards 1 by how uncertain they are: a normal prior on the
logarithm, and the noise that the dispersion implies.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auctune.auction.book import Floats
from auctune.auction.dual.columns import TaskColumns
from auctune.auction.pricing.learned.bids import densities, join, place
from auctune.auction.pricing.learned.diary import Seen
from auctune.auction.pricing.learned.typical import GOLDEN, TypicalDay, evenly

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
        samples: bids that stand for a slot, other ones in each scenario.
        recent_samples: the same, of those of late, where there is a typical day too.
    """

    recent: int
    half_life: float
    fresh: float
    fading: float
    scenarios: int
    samples: int
    recent_samples: int

    @property
    def width(self) -> int:
        """Slots to each side that count as the same time of the day."""
        return max(1, self.recent // 3)


@dataclass(frozen=True, slots=True)
class Now:
    """Where today stands.

    Attributes:
        slot: of the day, the current one.
        today: bids of the last hours, the current slot's among them.
    """

    slot: int
    today: Seen

    @property
    def past(self) -> Floats:
        """Bids of each slot of today that is over."""
        return self.today.counts[: self.slot].astype(np.float64)

    @property
    def num_seen(self) -> int:
        """Bids of the current slot so far."""
        return int(self.today.counts[self.slot])


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
        return _forecast_of_today(now, num_slots, habits)
    ahead = np.arange(num_slots)
    level = _level(typical, now.past, habits)
    rate = typical.rate[(now.slot + ahead) % len(typical.rate)] * level
    usual = rate[0] * _carried_over(typical, now, level)
    total = _total(usual, rate[0], now.num_seen, typical.ratios)
    paths = _paths(rate, total, now, typical.ratios, typical.persistence, habits)
    share = habits.fresh * np.exp(-ahead / habits.fading)
    if now.today.columns.num_tasks == 0:
        share = np.zeros(num_slots)
    scale = _scale(typical, now)
    scenarios = []
    for turn, expected in enumerate(paths):
        parts = [_like_typical(typical, now, (1 - share) * expected, habits, turn, scale)]
        if share.any():
            recent = now.today.columns, share * expected, habits.recent_samples
            parts.append(_like_recent(*recent, turn))
        columns, weights = zip(*parts, strict=True)
        scenarios.append(Scenario(join(columns), np.concatenate(weights)))
    return Forecast(tuple(scenarios), total)


def _forecast_of_today(now: Now, num_slots: int, habits: Habits) -> Forecast | None:
    """The first day: what came of late goes on coming."""
    past, recent = now.past, now.today.columns
    if recent.num_tasks == 0:
        return None
    weight = _discount(len(past), habits.half_life)
    mean = float((weight * past).sum() / weight.sum()) if len(past) else float(now.num_seen)
    mean = max(mean, 1e-6)
    total = _total(mean, mean, now.num_seen, past / mean)
    enough = len(past) >= _TOO_SHORT and past.any()
    ratios = past / past.mean() if enough else np.ones(1)
    paths = _paths(np.full(num_slots, mean), total, now, ratios, 0.0, habits)
    return Forecast(
        tuple(
            _like_recent(recent, expected, habits.samples, turn)
            for turn, expected in enumerate(paths)
        ),
        total,
    )


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
    if now.slot == 0:
        return 1.0
    rate = max(float(typical.rate[now.slot - 1]) * level, 1e-6)
    excess = float(now.past[-1]) / rate - 1
    return max(_LEAST_SHARE, 1 + typical.persistence * excess)


def _level(typical: TypicalDay, past: Floats, habits: Habits) -> float:
    """Bids of today over those of a typical day."""
    weight = _discount(len(past), habits.half_life)
    usual = float((weight * typical.rate[: len(past)]).sum())
    if usual <= 0:
        return 1.0
    rho = typical.persistence
    variance = float(typical.ratios.var()) * (1 + rho) / (1 - rho)
    noise = variance * float((weight**2).sum() / weight.sum() ** 2)
    return _drawn_to_one(float((weight * past).sum()) / usual, noise)


def _scale(typical: TypicalDay, now: Now) -> float:
    """Values of today over those of a typical day."""
    today, usual = densities(now.today.columns), densities(typical.columns)
    if len(today) < 2 or len(usual) < 2:
        return 1.0
    today, usual = np.log(today), np.log(usual)
    noise = float(today.var() / len(today) + usual.var() / len(usual))
    return _drawn_to_one(float(np.exp(today.mean() - usual.mean())), noise)


def _drawn_to_one(ratio: float, noise: float) -> float:
    """A ratio whose logarithm was seen with a variance of `noise`."""
    trust = _PRIOR**2 / (_PRIOR**2 + noise)
    return float(np.exp(trust * np.log(max(ratio, 0.05))))


def _discount(num_slots: int, half_life: float) -> Floats:
    weight: Floats = 0.5 ** (np.arange(num_slots)[::-1] / half_life)
    return weight


def _like_recent(columns: TaskColumns, expected: Floats, size: int, turn: int) -> Scenario:
    turns = np.arange(len(expected)) + _OTHER * turn
    rows = [evenly(columns.num_tasks, size, t) for t in turns.tolist()]
    return Scenario(*place(columns, np.concatenate(rows), expected, size))


def _like_typical(
    typical: TypicalDay, now: Now, expected: Floats, habits: Habits, turn: int, scale: float
) -> Scenario:
    num_day, size = len(typical.rate), habits.samples
    slots = (now.slot + np.arange(len(expected))) % num_day
    turn = _OTHER * turn + _AGAIN * now.slot
    rows = [typical.rows(slot, habits.width, size, turn) for slot in slots.tolist()]
    columns, weights = place(typical.columns, np.concatenate(rows), expected, size)
    return Scenario(columns._replace(bid=columns.bid * scale), weights)
