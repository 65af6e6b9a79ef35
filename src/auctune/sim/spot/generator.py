"""Made-up spot markets: counts that sit at none or at all, prices that wander above a floor.

Both are read off a stationary Gaussian process Z(t), mean 0 and variance 1 beside its daily cycle
a cos(2 pi (t - peak) / day).

Counts: Z is a sum of waves, independent mean-reverting processes of different lengths with
correlations exp(-u / length). With q0 = Phi^-1(empty) and q1 = Phi^-1(1 - full),

    A = 0 where Z < q0,  the cap where Z >= q1,  and in between 1..cap - 1, evenly by Z.

While the long waves keep Z near a threshold, the short ones make bursts of quick change; far from
it nothing happens for days.

Prices: Z reverts to its mean in `reversion`, and follows what drives it only after `smoothing`, so
that a rise goes on for a while:

    corr(u) = (r exp(-u / r) - s exp(-u / s)) / (r - s).

A price is max(floor, mean + deviation Z), looked at anew at random moments and held in between.
Counts and prices are independent: the records say nothing of them together.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtri

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite, check_positive
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.rng import stream
from auctune.spot.market import SpotMarket

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class DailyCycle:
    """What the hour adds to Z.

    Attributes:
        amplitude: in standard deviations of the rest of Z.
        peak_seconds: after the market's beginning, when Z is highest.
    """

    amplitude: float = 0.0
    peak_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_finite(self.amplitude, "amplitude", "a number >= 0")

    def by_slot(self, num_slots: int, slot_seconds: float) -> Floats:
        """[t] at each slot's beginning."""
        turns = (slot_seconds * np.arange(num_slots) - self.peak_seconds) / DAY_SECONDS
        return np.asarray(self.amplitude * np.cos(2 * np.pi * turns))


@dataclass(frozen=True, slots=True)
class Wave:
    """A mean-reverting part of Z.

    Attributes:
        seconds: its length; after it, its correlation with itself is 1/e.
        share: of Z's variance.
    """

    seconds: float
    share: float

    def __post_init__(self) -> None:
        check_positive(self.seconds, "seconds", "a number > 0")
        check_finite(self.share, "share", "a share >= 0")


@dataclass(frozen=True, slots=True)
class CountParams:
    """The law of the counts.

    Attributes:
        cap: the most there can be.
        empty: share of time with none, over the days.
        full: share of time with the cap.
        waves: whose shares sum to 1.
        daily: the cycle.
    """

    cap: int
    empty: float
    full: float
    waves: tuple[Wave, ...]
    daily: DailyCycle = DailyCycle()

    def __post_init__(self) -> None:
        check_count(self.cap, "cap", 1)
        for name in ("empty", "full"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)!r}", "a share within 0 and 1")
        if self.empty + self.full > 1:
            raise InputError("full", f"{self.full!r}", f"at most 1 - empty = {1 - self.empty:g}")
        total = sum(wave.share for wave in self.waves)
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            raise InputError("waves", f"shares that sum to {total:g}", "shares that sum to 1")


@dataclass(frozen=True, slots=True)
class PriceParams:
    """The law of the prices, in units of the on-demand price.

    Attributes:
        floor: the least price.
        mean, deviation: of the price without its floor.
        reversion_seconds: r.
        smoothing_seconds: s < r.
        changes_per_day: moments a day at which it is looked at anew.
        daily: the cycle.
    """

    floor: float
    mean: float
    deviation: float
    reversion_seconds: float
    smoothing_seconds: float
    changes_per_day: float
    daily: DailyCycle = DailyCycle()

    def __post_init__(self) -> None:
        check_finite(self.floor, "floor", "a price >= 0")
        check_finite(self.deviation, "deviation", "a number >= 0")
        if not math.isfinite(self.mean):
            raise InputError("mean", f"{self.mean!r}", "a price")
        check_positive(self.smoothing_seconds, "smoothing_seconds", "a number > 0")
        if not self.smoothing_seconds < self.reversion_seconds < math.inf:
            raise InputError(
                "reversion_seconds", f"{self.reversion_seconds!r}", "more than smoothing_seconds"
            )
        check_positive(self.changes_per_day, "changes_per_day", "a number > 0")


@dataclass(frozen=True, slots=True)
class MarketGenerator:
    """A market as made up as one likes.

    Attributes:
        counts: their law.
        prices: their law.
        slot_seconds: length of a slot.
    """

    counts: CountParams
    prices: PriceParams
    slot_seconds: float = 1800.0

    def market(self, num_slots: int, seed: int) -> SpotMarket:
        """A market of the seed's; a shorter one is the beginning of a longer one."""
        return SpotMarket(
            generate_prices(self.prices, num_slots, seed, self.slot_seconds),
            generate_counts(self.counts, num_slots, seed, self.slot_seconds),
            slot_seconds=self.slot_seconds,
        )


def generate_counts(params: CountParams, num_slots: int, seed: int, slot_seconds: float) -> Ints:
    """[t] instances in each slot."""
    z = np.zeros(num_slots)
    for index, wave in enumerate(params.waves):
        noise = stream(seed, "counts", index).standard_normal(num_slots)
        z += math.sqrt(wave.share) * _reverting(noise, math.exp(-slot_seconds / wave.seconds))
    z += params.daily.by_slot(num_slots, slot_seconds)
    # The cycle widens Z; thresholds are those of its law over the days, taken as Gaussian.
    z /= math.sqrt(1.0 + params.daily.amplitude**2 / 2)
    lower, upper = ndtri(params.empty), ndtri(1.0 - params.full)
    if params.cap == 1 or lower == upper:
        return np.where(z < lower, 0, params.cap).astype(np.int64)
    between = 1 + np.floor((params.cap - 1) * (z - lower) / (upper - lower))
    between = np.clip(between, 1, params.cap - 1)
    return np.where(z < lower, 0, np.where(z >= upper, params.cap, between)).astype(np.int64)


def generate_prices(params: PriceParams, num_slots: int, seed: int, slot_seconds: float) -> Floats:
    """[t] the price in each slot."""
    random = stream(seed, "prices")
    slow = math.exp(-slot_seconds / params.reversion_seconds)
    quick = math.exp(-slot_seconds / params.smoothing_seconds)
    z = _smoothed(random.standard_normal(num_slots + 1), slow, quick)
    z += params.daily.by_slot(num_slots, slot_seconds)
    rate = params.changes_per_day * slot_seconds / DAY_SECONDS
    looked = stream(seed, "looked").random(num_slots) < -math.expm1(-rate)
    looked[:1] = True
    last = np.maximum.accumulate(np.where(looked, np.arange(num_slots), 0))
    return np.asarray(np.maximum(params.floor, params.mean + params.deviation * z[last]))


def _reverting(noise: Floats, keep: float) -> Floats:
    """[t] x_t = keep x_{t-1} + sqrt(1 - keep^2) noise_t, of variance 1 from the beginning on."""
    scaled = math.sqrt(1.0 - keep * keep) * noise
    scaled[:1] = noise[:1]
    return np.asarray(lfilter([1.0], [1.0, -keep], scaled))


def _smoothed(noise: Floats, slow: float, quick: float) -> Floats:
    """[t] x_t = (slow + quick) x_{t-1} - slow quick x_{t-2} + noise_t, scaled to variance 1.

    x_t is (slow u_t - quick v_t) / (slow - quick), where u and v revert at `slow` and `quick` and
    share their noise; their first values are drawn from their common law. noise: [t + 1].
    """
    var_u, var_v, both = 1 / (1 - slow**2), 1 / (1 - quick**2), 1 / (1 - slow * quick)
    u0 = math.sqrt(var_u) * noise[0]
    v0 = both / var_u * u0 + math.sqrt(var_v - both * both / var_u) * noise[1:2]
    driven = noise[1:].copy()
    driven[:1] = 0.0
    first = np.zeros(len(driven))
    first[:1] = u0
    u = lfilter([1.0], [1.0, -slow], driven + first)
    first[:1] = v0
    v = lfilter([1.0], [1.0, -quick], driven + first)
    gain = (1 + slow * quick) / ((1 - slow**2) * (1 - quick**2) * (1 - slow * quick))
    return np.asarray((slow * u - quick * v) / (slow - quick) / math.sqrt(gain))
