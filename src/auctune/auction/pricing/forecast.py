"""Forecast of bids to come: scenarios of weighted samples of the bids that came.

The demand profile is fitted to earlier days. Bursts come at another time on another day, only the
daily curve returns, and one day alone cannot tell them apart: its rate is taken to be flat. Of
several days the first harmonics are fitted, and trusted as far as the days agree on them (the
shrinkage of James and Stein). Slots that a day did not have, as in a market that ends before it,
are left out.

In scenario s the number of bids expected h slots ahead is
 m_h * ((1 - persistence^h) * r_s,h + persistence^h * (1 + e)),
m_h the profile's rate times the recent level, or the recent mean rate where there is no profile;
r_s,h a stretch of the ratios of counts to rates in earlier days (on a first day: in recent slots),
another stretch in each scenario; and e by how much the current slot exceeds its rate. A share
fresh * exp(-h / fading) of them is sampled from recent bids, the rest from the profile's around
that time of the day, with values scaled as recent ones are. Level and scale are ratios of recent
bids to the profile, shrunk towards 1 by how uncertain they are: a normal prior on the logarithm,
and the noise that the dispersion implies.

Shapes: D slots of a day, I bids seen, R slots known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auctune.auction.dual.columns import TaskColumns
from auctune.auction.dual.scenarios import DemandScenarios
from auctune.auction.pricing.demand_history import DayRecord, RecentDemand, join, select_rows
from auctune.numerics.arrays import FIT, Floats, Ints

# Even steps of the golden ratio are spread as evenly as can be, whatever their number.
GOLDEN = 0.6180339887498949
_MOST_PERSISTENCE = 0.9
_HARMONICS = 2
# No hour of the day is taken to bring less than this share of the mean.
_LEAST_RATE = 0.1


class ValueStatistics(NamedTuple):
    """Statistics of bids' values: of the logarithm of money per sample."""

    mean: float
    error: float  # variance of the mean; infinite for fewer than two bids
    median_bid: float  # money, of bids above 0; 0 without any


@dataclass(frozen=True)
class DemandProfile:
    """What earlier days taught.

    Attributes:
        columns: of the bids kept, by slot of the day.
        slot: [I] of the day, rising.
        rate: [D] bids a slot.
        ratios: [R] counts of single slots over their rates, slot by slot and day by day.
        persistence: how much of a slot's excess over its rate is left in the next one, 0 to 0.9.
        values: statistics of its bids' values.
    """

    columns: TaskColumns
    slot: Ints
    rate: Floats
    ratios: Floats
    persistence: float
    values: ValueStatistics

    def rows(self, slots: Ints, width: int, size: int, turns: Ints) -> Ints:
        """[..., G, size] bids from around each slot [G], others at each turn [..., 1]; from all day
        if there are fewer."""
        first = np.searchsorted(self.slot, slots - width)
        last = np.searchsorted(self.slot, slots + width + 1)
        is_few = last - first < size
        first, last = np.where(is_few, 0, first), np.where(is_few, len(self.slot), last)
        chosen: Ints = first[:, None] + kronecker_sample(last - first, size, slots + turns)
        return chosen


def fit_profile(days: Sequence[DayRecord]) -> DemandProfile | None:
    """Return what days of one length have in common; None if they brought no bid.

    Args:
        days: what was seen of each; those without bids count too.
    """
    if not any(len(day.slot) for day in days):
        return None
    slots = np.concatenate([day.slot for day in days])
    order = np.argsort(slots, kind="stable")
    columns = select_rows(join([day.columns for day in days]), order)
    rate = _daily_curve(days)
    ratios = [day.counts[: day.num_known] / rate[: day.num_known] for day in days]
    return DemandProfile(
        columns,
        slots[order],
        rate,
        np.concatenate(ratios),
        _persistence(ratios),
        value_statistics(columns),
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


def kronecker_sample(counts: Ints, size: int, turns: Ints) -> Ints:
    """[..., G, size] indices of `size` of counts [G] of things, evenly spaced, others at each turn
    [..., G]."""
    offsets = (turns * GOLDEN) % 1.0
    picked = np.floor((np.arange(size) + offsets[..., None]) * (counts / size)[:, None])
    indices: Ints = np.minimum(picked.astype(np.int64), counts[:, None] - 1)
    return indices


def _daily_curve(days: Sequence[DayRecord]) -> Floats:
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
    if spread < FIT:  # as many bids in each slot, but for rounding
        return 0.0
    covariance = float(((before - before.mean()) * (after - after.mean())).mean())
    return min(max(covariance / spread, 0.0), _MOST_PERSISTENCE)


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
class ForecastParams:
    """Parameters of forecasts.

    Attributes:
        recent: number of slots that count as recent.
        half_life: slots; of the weight with which the past tells today's level.
        fresh: share of the current slot's bids that is sampled from recent ones.
        fading: slots; how fast that share falls.
        scenarios: how many.
        samples: bids that stand for `grid` slots, other ones in each scenario.
        recent_samples: the same, of recent bids, where there is a profile too.
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
class ForecastState:
    """What a forecast starts from.

    Attributes:
        slot: the current one, from the market's first one on.
        recent: bids of the last hours, the current slot's among them.
    """

    slot: int
    recent: RecentDemand

    @property
    def past(self) -> Floats:
        """Bids of each recent slot that is over, the latest last."""
        return self.recent.past

    @property
    def num_seen(self) -> int:
        """Bids of the current slot so far."""
        return self.recent.num_seen

    def of_day(self, ahead: Ints, num_day: int) -> Ints:
        """Slots of the day of those so far ahead."""
        slots: Ints = (self.slot + ahead) % num_day
        return slots


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bids to come.

    Attributes:
        scenarios: of as many slots as were asked for, whose bids may end after them.
        total: bids expected of the current slot, those seen included.
    """

    scenarios: DemandScenarios
    total: float


def forecast(
    profile: DemandProfile | None, now: ForecastState, num_slots: int, params: ForecastParams
) -> Forecast | None:
    """What the next `num_slots` slots bring, the current one first; None if nothing is known."""
    if profile is None:
        return _forecast_from_recent(now, num_slots, params)
    ahead = np.arange(num_slots)
    level = _level(profile, now, params)
    rate = profile.rate[now.of_day(ahead, len(profile.rate))] * level
    usual = rate[0] * _carried_over(profile, now, level)
    total = _total(usual, rate[0], now.num_seen, profile.ratios)
    paths = _paths(rate, total, now, profile.ratios, profile.persistence, params)
    samples = _profile_sample(profile, now, paths.shape[1], params)
    parts = [_Part(_scaled(profile.columns, _scale(profile, now)), samples, paths)]
    if now.recent.columns.num_tasks:
        share = params.fresh * np.exp(-ahead / params.fading)
        samples = _recent_sample(now, num_slots, params.recent_samples, params)
        parts = [
            parts[0]._replace(expected=(1 - share) * paths),
            _Part(now.recent.columns, samples, share * paths),
        ]
    return Forecast(_scenarios(parts, params), total)


def _forecast_from_recent(
    now: ForecastState, num_slots: int, params: ForecastParams
) -> Forecast | None:
    """Return the forecast of the first day: recent bids go on coming."""
    past = now.past
    if now.recent.columns.num_tasks == 0:
        return None
    if not len(past):
        # Its first slot goes on: more come than have come.
        total = _MORE * now.num_seen
        ratios = np.ones(1)
        paths = _paths(np.full(num_slots, total), total, now, ratios, 0.0, params)
    else:
        weight = _discount(len(past), params.half_life)
        mean = float((weight * past).sum() / weight.sum())
        # A first burst after an empty past says that there are bids at all.
        mean = max(mean, now.num_seen / (len(past) + 1), 1e-6)
        total = _total(mean, mean, now.num_seen, past / mean)
        enough = len(past) >= _TOO_SHORT and past.any()
        ratios = past / past.mean() if enough else np.ones(1)
        paths = _paths(np.full(num_slots, mean), total, now, ratios, 0.0, params)
    samples = _recent_sample(now, num_slots, params.samples, params)
    part = _Part(now.recent.columns, samples, paths)
    return Forecast(_scenarios([part], params), total)


def _paths(
    rate: Floats,
    total: float,
    now: ForecastState,
    ratios: Floats,
    persistence: float,
    params: ForecastParams,
) -> Floats:
    """[S, T] bids expected of each slot, those seen not counted, in each scenario."""
    num_past, ahead = len(ratios), np.arange(len(rate))
    kept = persistence**ahead
    excess = total / max(float(rate[0]), 1e-9)
    # Stretches that begin at other slots each time, evenly spaced: every slot of the past is heard.
    offset = (now.slot * GOLDEN) % 1.0
    turns = np.arange(params.scenarios)
    starts = ((turns + offset) * num_past / params.scenarios).astype(np.int64) + now.slot
    stretches = ratios[(starts[:, None] + ahead) % num_past]
    paths: Floats = rate * ((1 - kept) * stretches + kept * excess)
    paths[:, 0] = max(0.0, total - now.num_seen)
    return paths


def _total(usual: float, rate: float, num_seen: int, ratios: Floats) -> float:
    """Bids expected of the current slot: as usual until it brings more, then as such slots."""
    # A slot that brought just as many is such a slot, however processors round its ratio.
    at_least = num_seen * (1 - FIT)
    if usual >= at_least:
        return float(usual)
    as_many = ratios[ratios * rate >= at_least]
    expected = float(as_many.mean()) * rate if len(as_many) else _MORE * num_seen
    return max(expected, _MORE_AT_LEAST * num_seen)


def _carried_over(profile: DemandProfile, now: ForecastState, level: float) -> float:
    """Return what the slot before the current one says of it, as a ratio to its rate."""
    if not len(now.past):
        return 1.0
    before = profile.rate[(now.slot - 1) % len(profile.rate)]
    excess = float(now.past[-1]) / max(float(before) * level, 1e-6) - 1
    return max(_LEAST_SHARE, 1 + profile.persistence * excess)


def _level(profile: DemandProfile, now: ForecastState, params: ForecastParams) -> float:
    """Return the ratio of recent bids to those of the profile."""
    past = now.past
    weight = _discount(len(past), params.half_life)
    before = now.of_day(np.arange(-len(past), 0), len(profile.rate))
    usual = float((weight * profile.rate[before]).sum())
    if usual <= 0:
        return 1.0
    rho = profile.persistence
    variance = float(profile.ratios.var()) * (1 + rho) / (1 - rho)
    noise = variance * float((weight**2).sum() / weight.sum() ** 2)
    # One more on both sides: that none came yet is not that none will come.
    return _shrink_to_one((float((weight * past).sum()) + 1) / (usual + 1), noise)


def _scale(profile: DemandProfile, now: ForecastState) -> float:
    """Return the ratio of recent values to those of the profile."""
    recent, usual = value_statistics(now.recent.columns), profile.values
    noise = recent.error + usual.error
    if not math.isfinite(noise):
        return 1.0
    return _shrink_to_one(math.exp(recent.mean - usual.mean), noise)


def _shrink_to_one(ratio: float, noise: float) -> float:
    """Return a ratio whose logarithm was seen with a variance of `noise`."""
    return math.exp(_PRIOR**2 / (_PRIOR**2 + noise) * math.log(ratio))


def _discount(num_slots: int, half_life: float) -> Floats:
    weight: Floats = 0.5 ** (np.arange(num_slots)[::-1] / half_life)
    return weight


class _Part(NamedTuple):
    """Some of the bids of all scenarios, M of them of each of G moments."""

    columns: TaskColumns
    samples: Ints  # [S, G, M] rows of them
    expected: Floats  # [S, T] bids of each slot that they stand for


def _profile_sample(
    profile: DemandProfile, now: ForecastState, num_slots: int, params: ForecastParams
) -> Ints:
    slots = now.of_day(_moments(num_slots, params), len(profile.rate))
    turns = _OTHER * np.arange(params.scenarios)[:, None] + _AGAIN * now.slot
    return profile.rows(slots, params.width, params.samples, turns)


def _recent_sample(now: ForecastState, num_slots: int, size: int, params: ForecastParams) -> Ints:
    num_moments = len(_moments(num_slots, params))
    turns = _OTHER * np.arange(params.scenarios)[:, None] + np.arange(num_moments)
    return kronecker_sample(np.full(num_moments, now.recent.columns.num_tasks), size, turns)


def _moments(num_slots: int, params: ForecastParams) -> Ints:
    """[G] every `grid`-th slot, whose bids stand for those up to the next one."""
    return np.arange(0, num_slots, params.grid)


def _scaled(columns: TaskColumns, scale: float) -> TaskColumns:
    return columns._replace(bid=columns.bid * scale)


def _scenarios(parts: Sequence[_Part], params: ForecastParams) -> DemandScenarios:
    rows, arrival, weights, first = [], [], [], 0
    for part in parts:
        num_scenarios, size = len(part.samples), part.samples.shape[2]
        moments = _moments(part.expected.shape[1], params)
        of_moment = np.add.reduceat(part.expected, moments, axis=1)
        rows.append(first + np.arange(part.samples.size).reshape(num_scenarios, -1))
        arrival.append(np.repeat(moments, size))
        weights.append(np.repeat(of_moment / size, size, axis=1))
        first += part.samples.size
    return DemandScenarios(
        join([select_rows(part.columns, part.samples.ravel()) for part in parts]),
        np.hstack(rows),
        np.concatenate(arrival),
        np.hstack(weights),
    )
