"""Constants of learned prices, in hours and shares, and what they are in slots of one market."""

import math
from dataclasses import dataclass, field, fields

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats


@dataclass(frozen=True, slots=True)
class LearnedParams:
    """Constants of `pricing: learned`; how much each matters is measured by
    experiments/pdftsp/learned_sensitivity.py.

    Attributes:
        recent_hours: bids of so long ago are samples of those to come: long enough for a hundred
            bids at one in four minutes, short enough to follow a day.
        half_life_hours: after which a slot says half as much of today's level: two thirds of
            `recent_hours`, so that the level is estimated from a few hundred bids.
        recent_share: of the current slot's bids, sampled from recent ones: neither source is
            trusted alone.
        share_decay_hours: after which that share has fallen to 1/e: what is common this hour has
            little to do with the evening.
        same_time_hours: to each side that count as the same time of day: wide enough for a
            hundred bids, narrower than what varies by daylight.
        scenarios: that prices are averaged over; with one node type, with several. Costs time in
            proportion.
        samples: bids that stand for those of a slot in a scenario, likewise; times `scenarios`
            the number of bids that prices of one slot average over.
        recent_samples: the same, of recent bids, where there is a profile too.
        max_moments: slots a day that are sampled apart; shorter slots are sampled and learned
            from several at a time, so that a day takes about as long whatever its slots.
        near_slots: whose prices every update renews, four hours of slots of ten minutes; every
            second one renews twice as many, every fourth four times as many, and so on.
        first_steps: subgradient steps of the first update, which starts from one price for all.
        first_step: size of the first of them, as a share of the usual price; the n-th is as
            large over n.
        least_step: below which they do not fall.
        steps: of every other update, which starts from the prices of the slot before.
        step: their size: 20 updates move a price by up to three times the usual one.
        spare: share of a node that is not for sale, as what other tasks leave of it is too
            little for one more.
        least_supply: a slot nearly sold out counts as this share of the emptiest one in the size
            of a step, which would grow without end.
        min_bids: fewer say nothing of a market, nor of a slot that brings more than expected.
        max_days: latest days that the profile is fitted to: a week.
        max_bids_per_slot: that are kept, a uniform sample of all; a bound on memory.
        harmonics: of the daily curve: a day and half a day.
        least_rate: share of the mean rate below which the daily curve does not fall: no hour is
            known to be without bids.
        max_persistence: correlation of one slot's excess and the next one's, at most: of 1 a
            burst would never end.
        prior: standard deviation of the logarithm of a day's level, and of its values, around
            the profile's: days differ by a factor of 1.6 either way.
        least_carried: a slot after an empty one is expected to bring this share at least.
        min_slots: of today that show how unsteady it is, on a first day: two hours.
        more: a slot that brought n bids, more than any before, is expected to bring `more` * n.
        min_more: a slot that brought n bids, more than expected, at least `min_more` * n; so
            within a slot updates come at numbers of bids that grow geometrically.
    """

    recent_hours: float = 6.0
    half_life_hours: float = 4.0
    recent_share: float = 0.5
    share_decay_hours: float = 3.0
    same_time_hours: float = 2.0
    scenarios: tuple[int, int] = (8, 6)
    samples: tuple[int, int] = (5, 4)
    recent_samples: tuple[int, int] = (2, 1)
    max_moments: int = 144
    near_slots: int = 24
    first_steps: int = 100
    first_step: float = 0.3
    least_step: float = 0.01
    steps: int = 3
    step: float = 0.05
    spare: float = 0.03
    least_supply: float = 0.05
    min_bids: int = 8
    max_days: int = 7
    max_bids_per_slot: int = 200
    harmonics: int = 2
    least_rate: float = 0.1
    max_persistence: float = 0.9
    prior: float = 0.5
    least_carried: float = 0.1
    min_slots: int = 12
    more: float = 1.5
    min_more: float = 1.25

    def __post_init__(self) -> None:
        for one in fields(self):
            given = getattr(self, one.name)
            for value in given if isinstance(given, tuple) else (given,):
                least = 1 if isinstance(value, int) else 0
                if not (math.isfinite(value) and value >= least):
                    raise InputError(one.name, f"{value!r}", f"a number >= {least}")

    def step_shares(self, *, is_first: bool) -> Floats:
        """[steps] sizes of an update's steps, as shares of the usual price."""
        if is_first:
            return np.maximum(self.first_step / np.arange(1, self.first_steps + 1), self.least_step)
        return np.full(self.steps, self.step)

    def in_slots(self, slot_seconds: float, num_slots: int, num_types: int) -> "ForecastParams":
        """Return these constants for a market.

        Args:
            slot_seconds: length of a slot.
            num_slots: of a day, or of a market that ends before one is over.
            num_types: of its nodes.
        """
        hour = max(1.0, 3600 / slot_seconds)
        by_types = 0 if num_types == 1 else 1
        recent = max(1, round(self.recent_hours * hour))
        return ForecastParams(
            recent=recent,
            half_life=self.half_life_hours * hour,
            share_decay=self.share_decay_hours * hour,
            # Whole slots of what is recent, so that logs of before replay for slots of any length.
            width=max(1, int(recent * self.same_time_hours // self.recent_hours)),
            scenarios=self.scenarios[by_types],
            samples=self.samples[by_types],
            recent_samples=self.recent_samples[by_types],
            grid=max(1, round(num_slots / self.max_moments)),
            constants=self,
        )


@dataclass(frozen=True, slots=True)
class ForecastParams:
    """Parameters of the forecasts of one market.

    Attributes:
        recent: number of slots that count as recent.
        half_life: slots; of the weight with which the past tells today's level.
        share_decay: slots, after which the share of recent bids has fallen to 1/e.
        width: slots to each side that count as the same time of the day.
        scenarios: how many.
        samples: bids that stand for `grid` slots, other ones in each scenario.
        recent_samples: the same, of recent bids, where there is a profile too.
        grid: slots that are sampled together, and learned from together.
        constants: what does not depend on the market.
    """

    recent: int
    half_life: float
    share_decay: float
    width: int
    scenarios: int
    samples: int
    recent_samples: int
    grid: int = 1
    constants: LearnedParams = field(default_factory=LearnedParams)
