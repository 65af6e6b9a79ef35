"""Forecast of bids to come: scenarios of weighted samples of the bids that came.

In scenario s the number of bids expected h slots ahead is
 m_h * ((1 - persistence^h) * r_s,h + persistence^h * (1 + e)),
m_h the profile's rate times the recent level, or the recent mean rate where there is no profile;
r_s,h a stretch of the ratios of counts to rates in earlier days (on a first day: in recent slots),
another stretch in each scenario; and e by how much the current slot exceeds its rate. A share
fresh * exp(-h / fading) of them is sampled from recent bids, the rest from the profile's around
that time of the day, with values scaled as recent ones are. Level and scale are ratios of recent
bids to the profile, shrunk towards 1 by how uncertain they are: a normal prior on the logarithm,
and the noise that the dispersion implies.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from auctune.auction.dual.columns import TaskColumns
from auctune.auction.dual.scenarios import DemandScenarios
from auctune.auction.pricing.demand_history import RecentDemand, join, select_rows
from auctune.auction.pricing.demand_profile import (
    GOLDEN,
    DemandProfile,
    kronecker_sample,
    value_statistics,
)
from auctune.auction.pricing.learned_params import ForecastParams, LearnedParams
from auctune.numerics.arrays import FIT, Floats, Ints

# Turns of the golden ratio so far apart that no two scenarios share them, nor two slots of today:
# with the same samples all day, one slot's error would stay, and tight deadlines cannot avoid it.
_OTHER, _AGAIN = 1000, 37


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


class CountForecast(Protocol):
    """Numbers of bids to come, by somebody who knows more than the days before: a yardstick."""

    def predict(
        self, now: ForecastState, num_slots: int, num_scenarios: int
    ) -> tuple[float, Floats]:
        """Return what the current slot and those after it bring.

        Returns:
            Bids expected of the current slot, those seen included; and [S, T] of each slot in
            each scenario, the current one first, those seen not included.
        """
        ...


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
    profile: DemandProfile | None,
    now: ForecastState,
    num_slots: int,
    params: ForecastParams,
    counts: CountForecast | None = None,
) -> Forecast | None:
    """What the next `num_slots` slots bring, the current one first; None if nothing is known.

    Args:
        profile: of the days before; None: there were none.
        now: the current slot and those before it.
        num_slots: from the current one on.
        params: parameters.
        counts: who says how many bids come, in place of the profile.
    """
    if profile is None:
        return _forecast_from_recent(now, num_slots, params)
    ahead = np.arange(num_slots)
    constants = params.constants
    if counts is None:
        total, paths = _counts(profile, now, ahead, params)
    else:
        total, paths = counts.predict(now, num_slots, params.scenarios)
    samples = _profile_sample(profile, now, paths.shape[1], params)
    parts = [_Part(_scaled(profile.columns, _scale(profile, now, constants.prior)), samples, paths)]
    if now.recent.columns.num_tasks:
        share = constants.fresh * np.exp(-ahead / params.fading)
        samples = _recent_sample(now, num_slots, params.recent_samples, params)
        parts = [
            parts[0]._replace(expected=(1 - share) * paths),
            _Part(now.recent.columns, samples, share * paths),
        ]
    return Forecast(_scenarios(parts, params), total)


def _counts(
    profile: DemandProfile, now: ForecastState, ahead: Ints, params: ForecastParams
) -> tuple[float, Floats]:
    """Return what the profile and the last hours say, as `CountForecast.predict` does."""
    level = _level(profile, now, params)
    rate = profile.rate[now.of_day(ahead, len(profile.rate))] * level
    usual = rate[0] * _carried_over(profile, now, level, params.constants.least_carried)
    total = _total(usual, rate[0], now.num_seen, profile.ratios, params.constants)
    return total, _paths(rate, total, now, profile.ratios, profile.persistence, params)


def _forecast_from_recent(
    now: ForecastState, num_slots: int, params: ForecastParams
) -> Forecast | None:
    """Return the forecast of the first day: recent bids go on coming."""
    past, constants = now.past, params.constants
    if now.recent.columns.num_tasks == 0:
        return None
    if not len(past):
        # Its first slot goes on: more come than have come.
        total = constants.more * now.num_seen
        ratios = np.ones(1)
        paths = _paths(np.full(num_slots, total), total, now, ratios, 0.0, params)
    else:
        weight = _discount(len(past), params.half_life)
        mean = float((weight * past).sum() / weight.sum())
        # A first burst after an empty past says that there are bids at all.
        mean = max(mean, now.num_seen / (len(past) + 1), 1e-6)
        total = _total(mean, mean, now.num_seen, past / mean, constants)
        enough = len(past) >= constants.min_slots and past.any()
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


def _total(
    usual: float, rate: float, num_seen: int, ratios: Floats, constants: LearnedParams
) -> float:
    """Bids expected of the current slot: as usual until it brings more, then as such slots."""
    # A slot that brought just as many is such a slot, however processors round its ratio.
    at_least = num_seen * (1 - FIT)
    if usual >= at_least:
        return float(usual)
    as_many = ratios[ratios * rate >= at_least]
    expected = float(as_many.mean()) * rate if len(as_many) else constants.more * num_seen
    return max(expected, constants.min_more * num_seen)


def _carried_over(profile: DemandProfile, now: ForecastState, level: float, least: float) -> float:
    """Return what the slot before the current one says of it, as a ratio to its rate."""
    if not len(now.past):
        return 1.0
    before = profile.rate[(now.slot - 1) % len(profile.rate)]
    excess = float(now.past[-1]) / max(float(before) * level, 1e-6) - 1
    return max(least, 1 + profile.persistence * excess)


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
    return _shrink_to_one(
        (float((weight * past).sum()) + 1) / (usual + 1), noise, params.constants.prior
    )


def _scale(profile: DemandProfile, now: ForecastState, prior: float) -> float:
    """Return the ratio of recent values to those of the profile."""
    recent, usual = value_statistics(now.recent.columns), profile.values
    noise = recent.error + usual.error
    if not math.isfinite(noise):
        return 1.0
    return _shrink_to_one(math.exp(recent.mean - usual.mean), noise, prior)


def _shrink_to_one(ratio: float, noise: float, prior: float) -> float:
    """Return a ratio whose logarithm was seen with a variance of `noise`, and `prior` before."""
    return math.exp(prior**2 / (prior**2 + noise) * math.log(ratio))


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
